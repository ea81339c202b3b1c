#include "server/op_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace telensor::server {
namespace {

using ::testing::HasSubstr;
using Kind = Value::Kind;

v1::Attribute* Add(v1::Command* command, Kind kind) {
  v1::Attribute* a = command->add_attributes();
  a->set_kind(static_cast<uint32_t>(kind));
  return a;
}

const OpSchema& Row(const char* name) { return *OpTable::Get().Find(name); }

TEST(OpCallTest, FillsInTrailingDefaults) {
  v1::Command command;
  OpCall call;
  ASSERT_TRUE(call.ReadAttributes(Row("softplus"), command).ok());
  const OpSchema& schema = Row("softplus");
  ASSERT_EQ(call.attrs().size(), static_cast<size_t>(schema.num_attrs));
  for (int i = 0; i < schema.num_attrs; ++i) {
    EXPECT_EQ(*call.attrs()[i], OpTable::Get().literal(schema.attr_params[i]->default_literal));
  }
}

TEST(OpCallTest, ReadsEveryKind) {
  v1::Command command;
  command.set_op(Row("full").id);
  v1::Attribute* size = Add(&command, Kind::kInts);
  size->add_ints(2);
  size->add_ints(3);
  Add(&command, Kind::kFloat)->set_f(1.5);
  Add(&command, Kind::kDType)->set_i(10);
  Add(&command, Kind::kDevice)->set_i(0);
  OpCall call;
  ASSERT_TRUE(call.ReadAttributes(Row("full"), command).ok());
  EXPECT_EQ(call.attrs()[0]->ints(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(call.attrs()[1]->f(), 1.5);
  EXPECT_EQ(call.attrs()[2]->dtype(), DType::kFloat64);
  EXPECT_EQ(call.attrs()[3]->i(), 0);
}

TEST(OpCallTest, CanBeUsedAgain) {
  v1::Command command;
  Add(&command, Kind::kInt)->set_i(0);
  Add(&command, Kind::kInt)->set_i(1);
  OpCall call;
  ASSERT_TRUE(call.ReadAttributes(Row("transpose"), command).ok());
  ASSERT_TRUE(call.ReadAttributes(Row("relu"), v1::Command()).ok());
  EXPECT_TRUE(call.attrs().empty());
}

TEST(OpCallTest, RefusesWhatTheRowDoesNotTake) {
  OpCall call;
  const auto error = [&](const char* row, const v1::Command& command) {
    const absl::Status status = call.ReadAttributes(Row(row), command);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(error("transpose", v1::Command()), HasSubstr("attribute 'dim0' is missing"));
  v1::Command one;
  Add(&one, Kind::kInt);
  EXPECT_THAT(error("transpose", one), HasSubstr("attribute 'dim1' is missing"));
  EXPECT_THAT(error("relu", one), HasSubstr("takes 0 attributes, not 1"));
  v1::Command wrong = one;
  Add(&wrong, Kind::kString)->set_text("1");
  EXPECT_THAT(error("transpose", wrong), HasSubstr("argument 'dim1' is of the wrong kind"));
}

TEST(OpCallTest, RefusesNumbersThatNameNothing) {
  OpCall call;
  const auto error = [&](uint32_t kind, int64_t i) {
    v1::Command command;
    v1::Attribute* a = command.add_attributes();
    a->set_kind(kind);
    a->set_i(i);
    const absl::Status status = call.ReadAttributes(Row("_to_copy"), command);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << kind << " " << i;
    return std::string(status.message());
  };
  for (int64_t dtype : {int64_t{0}, int64_t{11}, int64_t{-1}, int64_t{265}, INT64_MAX, INT64_MIN}) {
    EXPECT_THAT(error(static_cast<uint32_t>(Kind::kDType), dtype), HasSubstr("no dtype has the number"));
  }
  for (int64_t device : {int64_t{-1}, int64_t{256}, INT64_MAX}) {
    EXPECT_THAT(error(static_cast<uint32_t>(Kind::kDevice), device), HasSubstr("no device has the number"));
  }
  // Not even where the number's last byte is a kind's.
  for (uint32_t kind : {9u, 255u, 256u + 6u, 0x80000006u, UINT32_MAX}) {
    EXPECT_THAT(error(kind, 9), HasSubstr("unknown kind"));
  }
}

TEST(OpCallTest, ReadsNumbersOnlyAsNumbers) {
  v1::Attribute a;
  a.set_kind(static_cast<uint32_t>(Kind::kInt));
  a.set_i(-4);
  EXPECT_EQ(*OpCall::ReadScalar(a), Scalar(-4));
  a.set_kind(static_cast<uint32_t>(Kind::kFloat));
  a.set_f(2.5);
  EXPECT_EQ(*OpCall::ReadScalar(a), Scalar(2.5));
  a.set_kind(static_cast<uint32_t>(Kind::kBool));
  a.set_i(17);
  EXPECT_EQ(*OpCall::ReadScalar(a), Scalar(true));
  for (Kind kind : {Kind::kNone, Kind::kInts, Kind::kString, Kind::kDType, Kind::kDevice, Kind::kFloats}) {
    a.set_kind(static_cast<uint32_t>(kind));
    a.set_i(9);
    EXPECT_FALSE(OpCall::ReadScalar(a).ok()) << static_cast<int>(kind);
  }
}

}  // namespace
}  // namespace telensor::server
