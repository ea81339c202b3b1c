// Commands that are nearly right: every row of the op table, inner ones too, with operands, numbers and sizes drawn from
// a fixed seed. Whatever comes of one, the server lives and the session goes on. Under
// AddressSanitizer this looks for kernels that trust what rules have not checked.
#include <gmock/gmock.h>

#include <cmath>

#include "server/executor_testing.h"

namespace telensor::server {
namespace {

class Fuzzer {
 public:
  explicit Fuzzer(uint32_t seed) : random_(seed) {}

  uint32_t Next(uint32_t below) {
    random_ = random_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>((random_ >> 33) % below);
  }
  int64_t Int() {
    static constexpr int64_t kOdd[] = {-3, -1000, 7, 100, int64_t{1} << 31, int64_t{1} << 40, int64_t{1} << 62, INT64_MAX, INT64_MIN};
    return Next(12) == 0 ? kOdd[Next(9)] : static_cast<int64_t>(Next(6)) - 1;
  }
  std::vector<int64_t> Ints() {
    std::vector<int64_t> out(Next(5));
    for (int64_t& i : out) i = Int();
    return out;
  }
  double Float() {
    static constexpr double kOdd[] = {0, -1, 1e30, -1e-30, HUGE_VAL, -HUGE_VAL, NAN};
    return Next(3) == 0 ? kOdd[Next(7)] : Next(5) * 0.25;
  }
  Value Of(ParamType type) {
    static const char* const kWords[] = {"mean", "sum", "none", "tanh", "floor", "trunc", "fro", ""};
    switch (Next(40) == 0 ? static_cast<ParamType>(Next(11)) : type) {
      case ParamType::kInt: return Value::Int(Int());
      case ParamType::kFloat: return Value::Float(Float());
      case ParamType::kBool: return Value::Bool(Next(2) != 0);
      case ParamType::kScalar: return Next(2) != 0 ? Value::Int(Int()) : Value::Float(Float());
      case ParamType::kInts: return Value::Ints(Ints());
      case ParamType::kDType: return Value::Type(static_cast<DType>(1 + Next(10)));
      case ParamType::kDevice: return Value::Device(0);
      case ParamType::kString: return Value::String(kWords[Next(8)]);
      default: return Value();
    }
  }

 private:
  uint64_t random_;
};

class ExecutorFuzzTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(ExecutorFuzzTest, TheServerLives) {
  TestDevices devices(rt::CpuBackend());
  TestClient client(devices.all(), 2 << 20);  // large results are refused before they cost time
  Fuzzer fuzz(GetParam());
  std::vector<Handle> pool;
  const std::vector<std::vector<int64_t>> shapes = {{}, {1}, {3}, {4}, {2, 3}, {3, 2}, {0, 3}, {4, 4}, {1, 4}, {2, 3, 4}, {2, 4, 5, 5}, {4, 4, 3, 3}, {1, 2, 3, 4, 5}};
  for (const auto& shape : shapes) {
    pool.push_back(client.Random(shape));
    std::vector<int64_t> ints(static_cast<size_t>(client.Meta(pool.back()).numel()));
    for (int64_t& i : ints) i = fuzz.Next(9) == 0 ? fuzz.Int() : static_cast<int64_t>(fuzz.Next(3));
    pool.push_back(client.WriteInts(ints, shape));
    if (fuzz.Next(2) != 0) {
      EXPECT_TRUE(client.RequireGrad(pool[pool.size() - 2]).ok());
    }
    pool.push_back(client.Op("_to_copy", {pool[pool.size() - 2]}, {Value::Type(static_cast<DType>(1 + fuzz.Next(10)))}));
    if (shape.size() >= 2) pool.push_back(client.Op("transpose", {pool[pool.size() - 3]}, {Value::Int(0), Value::Int(-1)}));
  }
  const size_t kept = pool.size();
  const OpTable& table = OpTable::Get();
  int carried_out = 0;
  for (int round = 0; round < 20000; ++round) {
    const OpSchema& schema = table.at(static_cast<OpId>(fuzz.Next(static_cast<uint32_t>(table.size()))));
    v1::Command command;
    command.set_kind(v1::Command::KIND_OP);
    command.set_op(schema.id);
    const bool writes = schema.inplace_only || (schema.has_inplace && fuzz.Next(4) == 0);
    command.set_flags((fuzz.Next(2) != 0 ? v1::COMMAND_FLAG_RECORD : 0) | (writes ? v1::COMMAND_FLAG_IN_PLACE : 0));
    // One shape for most operands of a call: then rules let it through.
    const uint32_t favourite = fuzz.Next(static_cast<uint32_t>(pool.size()));
    for (int slot = 0; slot < schema.num_inputs; ++slot) {
      const Param& param = *schema.input_params[slot];
      const uint32_t count = slot == schema.list_slot ? fuzz.Next(5) : 1;
      for (uint32_t k = 0; k < count; ++k) {
        if ((param.optional && fuzz.Next(2) != 0) || fuzz.Next(50) == 0) {
          command.add_inputs(0);
        } else if (param.type == telensor::ParamType::kTensorOrScalar && fuzz.Next(3) == 0) {
          command.add_inputs(0);
          TestClient::Fill(fuzz.Of(telensor::ParamType::kScalar), command.add_scalars());
        } else {
          command.add_inputs(pool[fuzz.Next(3) != 0 ? favourite : fuzz.Next(static_cast<uint32_t>(pool.size()))]);
        }
      }
    }
    for (int i = 0; i < schema.num_attrs; ++i) {
      const Param& param = *schema.attr_params[i];
      if (param.default_literal >= 0 && fuzz.Next(3) == 0) break;
      TestClient::Fill(param.optional && fuzz.Next(2) != 0 ? Value() : fuzz.Of(param.type), command.add_attributes());
    }
    const int results = writes ? 0 : schema.num_outputs >= 0 ? schema.num_outputs : static_cast<int>(fuzz.Next(4));
    for (int i = 0; i < results; ++i) command.add_outputs(client.NewHandle());
    client.Run(command);
    absl::Status status = client.Error();
    for (const Handle h : command.outputs()) {
      if (status.ok()) status = client.Poison(h);
    }
    carried_out += status.ok();
    for (const Handle h : command.outputs()) {
      // Some results are operands of what follows.
      if (client.Holds(h) && client.Meta(h).numel() < 1000 && pool.size() < kept + 60) {
        pool.push_back(h);
      } else {
        client.Release({h});
      }
    }
    if (pool.size() >= kept + 60) {
      for (size_t i = kept; i < pool.size(); ++i) client.Release({pool[i]});
      pool.resize(kept);
    }
    if (round % 50 == 0 && pool.size() > kept) {
      const Handle root = pool.back();
      std::vector<Handle> none;
      (void)client.Backward(client.Op("sum", {root}, {Value(), Value::Bool(false)}), {}, &none);
      client.Release({client.last_handle()});
    }
  }
  EXPECT_GT(carried_out, 2000) << "most commands do not get as far as a kernel";
  const Handle x = client.Write({1, 2}, {2});
  EXPECT_THAT(client.Values(client.Op("add", {x, x})), ::testing::ElementsAre(2, 4));
}

INSTANTIATE_TEST_SUITE_P(Seeds, ExecutorFuzzTest, ::testing::Values(1, 3));

}  // namespace
}  // namespace telensor::server
