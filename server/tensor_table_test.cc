#include "server/tensor_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace telensor::server {
namespace {

using ::testing::HasSubstr;

// A tensor without memory, which is enough for a table.
rt::Tensor NewTensor() {
  return rt::MakeRef<rt::TensorImpl>(TensorMeta(), rt::MakeRef<rt::Storage>(nullptr, Buffer()));
}

rt::Ref<Failure> NewFailure() { return rt::Ref<Failure>(new Failure(absl::InternalError("failed"), 7)); }

TEST(TensorTableTest, HoldsATensorUntilItIsErased) {
  TensorTable table(10);
  const rt::Tensor tensor = NewTensor();
  EXPECT_TRUE(tensor->unique());
  table.Put(1, tensor);
  EXPECT_FALSE(tensor->unique());
  EXPECT_EQ(table.Find(1).tensor, tensor.get());
  EXPECT_FALSE(table.Find(1).pending);
  EXPECT_EQ(table.size(), 1u);
  EXPECT_TRUE(table.Erase(1));
  EXPECT_TRUE(tensor->unique());
  EXPECT_FALSE(table.Find(1).found());
  EXPECT_FALSE(table.Erase(1));
  EXPECT_EQ(table.size(), 0u);
}

TEST(TensorTableTest, DropsWhatItHoldsAtItsEnd) {
  const rt::Tensor tensor = NewTensor();
  const rt::Ref<Failure> failure = NewFailure();
  {
    TensorTable table(10);
    table.Put(1, tensor);
    table.PutPending(2, tensor);
    table.PutFailure(3, failure);
  }
  EXPECT_TRUE(tensor->unique());
  EXPECT_TRUE(failure->unique());
}

TEST(TensorTableTest, SharesAFailureBetweenHandles) {
  TensorTable table(10);
  table.PutFailure(1, NewFailure());
  table.PutFailure(2, rt::Ref<Failure>(table.Find(1).failure));
  table.Erase(1);
  ASSERT_NE(table.Find(2).failure, nullptr);
  EXPECT_EQ(table.Find(2).failure->seq, 7u);
  EXPECT_EQ(table.Find(2).tensor, nullptr);
  EXPECT_TRUE(table.Find(2).found());
}

TEST(TensorTableTest, AnUploadIsPendingUntilItIsSettled) {
  TensorTable table(10);
  table.PutPending(1, NewTensor());
  EXPECT_TRUE(table.Find(1).pending);
  EXPECT_NE(table.Find(1).tensor, nullptr);
  table.Settle(1);
  EXPECT_FALSE(table.Find(1).pending);
  EXPECT_NE(table.Find(1).tensor, nullptr);
  table.Settle(5);  // nothing there: nothing happens
  EXPECT_FALSE(table.Find(5).found());
}

TEST(TensorTableTest, AFailedUploadReplacesItsTensor) {
  TensorTable table(10);
  const rt::Tensor tensor = NewTensor();
  table.PutPending(1, tensor);
  table.PutFailure(1, NewFailure());
  EXPECT_TRUE(tensor->unique());
  EXPECT_EQ(table.size(), 1u);
  EXPECT_FALSE(table.Find(1).pending);
}

TEST(TensorTableTest, HandlesRise) {
  TensorTable table(10);
  EXPECT_TRUE(table.CheckNew(1).ok());
  table.Put(5, NewTensor());
  for (Handle used : {5, 4, 1}) {
    const absl::Status status = table.CheckNew(used);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << used;
    EXPECT_THAT(std::string(status.message()), HasSubstr("is not new"));
  }
  table.Erase(5);
  EXPECT_FALSE(table.CheckNew(5).ok()) << "never used again";
  EXPECT_TRUE(table.CheckNew(6).ok());
  const Handle rising[] = {6, 7, 9}, falling[] = {7, 6}, twice[] = {6, 6};
  EXPECT_TRUE(table.CheckNew(rising).ok());
  EXPECT_FALSE(table.CheckNew(falling).ok());
  EXPECT_FALSE(table.CheckNew(twice).ok());
  EXPECT_TRUE(table.CheckNew(absl::Span<const Handle>()).ok());
}

TEST(TensorTableTest, HandlesAreInRange) {
  TensorTable table(10);
  EXPECT_THAT(std::string(table.CheckNew(0).message()), HasSubstr("handle 0 is out of range"));
  EXPECT_THAT(std::string(table.CheckNew(uint64_t{1} << 53).message()), HasSubstr("out of range"));
  EXPECT_THAT(std::string(table.CheckNew(UINT64_MAX).message()), HasSubstr("out of range"));
  EXPECT_TRUE(table.CheckNew(uint64_t{1} << 22).ok());
  EXPECT_THAT(std::string(table.CheckNew((uint64_t{1} << 22) + 1).message()), HasSubstr("too far beyond"));
  const Handle steps[] = {1, (uint64_t{1} << 22) + 1};
  EXPECT_FALSE(table.CheckNew(steps).ok()) << "measured from what the table has";
}

TEST(TensorTableTest, LimitsHandlesInUse) {
  TensorTable table(3);
  table.Put(1, NewTensor());
  table.Put(2, NewTensor());
  const Handle two[] = {3, 4};
  const absl::Status status = table.CheckNew(two);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "handles: limit 3, used 2, requested 2");
  EXPECT_TRUE(table.CheckNew(3).ok());
  table.Put(3, NewTensor());
  EXPECT_FALSE(table.CheckNew(4).ok());
  table.Erase(1);
  EXPECT_TRUE(table.CheckNew(4).ok());
}

TEST(TensorTableTest, ErrorsHaveALimitOfTheirOwn) {
  TensorTable table(1);
  table.Put(1, NewTensor());
  EXPECT_FALSE(table.CheckNew(2).ok());
  EXPECT_TRUE(table.CanFail(2));
  EXPECT_FALSE(table.CanFail(1)) << "what holds something stays";
  table.PutFailure(2, NewFailure());
  EXPECT_FALSE(table.CanFail(3));
  table.Erase(1);
  EXPECT_TRUE(table.CheckNew(3).ok()) << "an error takes no tensor's room";
  table.Erase(2);
  EXPECT_TRUE(table.CanFail(3));
}

TEST(TensorTableTest, UnknownHandlesAreNotFound) {
  TensorTable table(10);
  for (Handle h : {uint64_t{0}, uint64_t{1}, uint64_t{4096}, uint64_t{1} << 52, UINT64_MAX}) {
    EXPECT_FALSE(table.Find(h).found());
    EXPECT_FALSE(table.Erase(h));
  }
  EXPECT_TRUE(table.IsAhead(1));
  table.Put(4, NewTensor());
  EXPECT_FALSE(table.IsAhead(4));
  EXPECT_TRUE(table.IsAhead(5));
}

TEST(TensorTableTest, ReusesPagesOverALongLife) {
  TensorTable table(100);
  const rt::Tensor tensor = NewTensor();
  table.Put(1, tensor);  // pins the first page
  for (Handle h = 2; h < 100000; ++h) {
    ASSERT_TRUE(table.CheckNew(h).ok());
    table.Put(h, tensor);
    if (h > 40) {
      ASSERT_TRUE(table.Erase(h - 39));
    }
  }
  EXPECT_EQ(table.size(), 40u);
  EXPECT_TRUE(table.Find(1).found());
  for (Handle h = 99999 - 38; h < 100000; ++h) EXPECT_EQ(table.Find(h).tensor, tensor.get());
  EXPECT_FALSE(table.Find(50000).found());
}

}  // namespace
}  // namespace telensor::server
