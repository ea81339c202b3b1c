// Commands that are nearly right: every row of the op table, inner ones too, from the row's samples and from a pool of
// operands, with sizes and numbers drawn from a fixed seed. Whatever comes of one, the server lives, says what is wrong
// with the command and not with itself, agrees with the client's rules, and leaves another session's tensors alone.
// Under AddressSanitizer this looks for kernels that trust what rules have not checked.
//
// TELENSOR_FUZZ_SEEDS="FROM TO" takes other seeds than the few of every run; TELENSOR_FUZZ_TRACE prints each command
// before it is run.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "absl/strings/str_join.h"
#include "proto/core/sample_testing.h"
#include "server/executor_testing.h"

namespace telensor::server {
namespace {

using telensor::testing::SampleArg;
using telensor::testing::SampleCall;

class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed) {}

  uint32_t Below(uint32_t n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>((state_ >> 33) % n);
  }
  bool OneIn(uint32_t n) { return Below(n) == 0; }
  int64_t Int() {
    static constexpr int64_t kOdd[] = {-3,
                                       -1000,
                                       7,
                                       100,
                                       int64_t{1} << 31,
                                       (int64_t{1} << 31) - 1,
                                       -(int64_t{1} << 31),
                                       int64_t{1} << 40,
                                       int64_t{1} << 59,
                                       int64_t{1} << 62,
                                       INT64_MAX,
                                       INT64_MIN};
    return OneIn(8) ? kOdd[Below(std::size(kOdd))] : static_cast<int64_t>(Below(6)) - 1;
  }
  std::vector<int64_t> Ints() {
    std::vector<int64_t> out(OneIn(20) ? Below(40) : Below(5));
    for (int64_t& i : out) i = Int();
    return out;
  }
  double Float() {
    static constexpr double kOdd[] = {0, -1, 1e30, -1e-30, 1e300, 9.3e18, HUGE_VAL, -HUGE_VAL, NAN};
    return OneIn(3) ? kOdd[Below(std::size(kOdd))] : Below(5) * 0.25;
  }
  DType AnyDType() { return static_cast<DType>(1 + Below(kNumDTypes - 1)); }
  Value Of(ParamType type) {
    static const char* const kWords[] = {"mean", "sum", "none", "tanh", "floor", "trunc", "fro", ""};
    switch (OneIn(40) ? static_cast<ParamType>(Below(11)) : type) {
      case ParamType::kInt: return Value::Int(Int());
      case ParamType::kFloat: return Value::Float(Float());
      case ParamType::kBool: return Value::Bool(OneIn(2));
      case ParamType::kScalar: return OneIn(2) ? Value::Int(Int()) : Value::Float(Float());
      case ParamType::kInts: return Value::Ints(Ints());
      case ParamType::kDType: return Value::Type(AnyDType());
      case ParamType::kDevice: return Value::Device(0);
      case ParamType::kString: return Value::String(kWords[Below(std::size(kWords))]);
      default: return Value();
    }
  }
  // The same list, longer or shorter by one, or with one other number.
  Value Near(const Value& v) {
    if (v.kind() == Value::Kind::kInt) return Value::Int(v.i() + static_cast<int64_t>(Below(3)) - 1);
    if (v.kind() != Value::Kind::kInts || v.ints().empty()) return v;
    std::vector<int64_t> ints = v.ints();
    switch (Below(4)) {
      case 0: ints.pop_back(); break;
      case 1: ints.push_back(Int()); break;
      default: ints[Below(static_cast<uint32_t>(ints.size()))] = Int();
    }
    return Value::Ints(std::move(ints));
  }

 private:
  uint64_t state_;
};

class Fuzz {
 public:
  Fuzz(TestClient* client, uint32_t seed) : client_(*client), dice_(seed) { FillPool(); }

  void Round() {
    const OpTable& table = OpTable::Get();
    schema_ = &table.at(static_cast<OpId>(dice_.Below(static_cast<uint32_t>(table.size()))));
    v1::Command command;
    command.set_kind(v1::Command::KIND_OP);
    command.set_op(schema_->id);
    const bool writes = schema_->inplace_only || (schema_->has_inplace && dice_.OneIn(4));
    command.set_flags((dice_.OneIn(2) ? v1::COMMAND_FLAG_RECORD : 0) | (writes ? v1::COMMAND_FLAG_IN_PLACE : 0));
    Arguments(&command);
    OpMetas metas;
    const absl::Status expected = Infer(command, &metas);
    int results = writes ? 0 : schema_->num_outputs;
    if (results < 0) results = expected.ok() ? static_cast<int>(std::min<size_t>(metas.outputs.size(), 64)) : 1;
    if (dice_.OneIn(50)) results = static_cast<int>(dice_.Below(4));
    for (int i = 0; i < results; ++i) command.add_outputs(client_.NewHandle());
    if (trace_) std::fprintf(stderr, "%s\n", What(command).c_str());
    client_.Run(command);
    const absl::Status status = Outcome(command);
    Check(status, command);
    if (!expected.ok()) {
      EXPECT_FALSE(status.ok()) << What(command) << "\nwas carried out, but a client refuses it: " << expected;
    }
    carried_out_ += status.ok();
    // A fused row's formula runs where a gradient is wanted; it may be of another dtype, which the engine puts right.
    if (status.ok() && !writes && !metas.dynamic && !schema_->fused) {
      for (int i = 0; i < command.outputs_size(); ++i)
        CheckMeta(command, metas.outputs[i], client_.Meta(command.outputs(i)));
    }
    Keep(command);
    if (dice_.OneIn(8)) Backward();
  }

  int carried_out() const { return carried_out_; }

 private:
  // ---- operands

  Handle Make(const std::vector<int64_t>& sizes, DType dtype, int64_t below) {
    Handle handle;
    if (IsFloating(dtype)) {
      handle = client_.Random(sizes);
    } else {
      int64_t n = 1;
      for (int64_t s : sizes) n *= s;
      std::vector<int64_t> ints(static_cast<size_t>(n));
      for (int64_t& i : ints)
        i = dice_.OneIn(60) ? dice_.Int() : dice_.Below(static_cast<uint32_t>(std::max<int64_t>(below, 3)));
      handle = client_.WriteInts(ints, sizes);
    }
    if (dtype != DType::kFloat32 && dtype != DType::kInt64) {
      const Handle from = handle;
      handle = client_.Op("_to_copy", {from}, {Value::Type(dtype)});
      client_.Release({from});
    }
    return handle;
  }

  void FillPool() {
    const std::vector<std::vector<int64_t>> shapes = {{},           {1},          {3},    {4},       {2, 3},
                                                      {3, 2},       {0, 3},       {4, 4}, {1, 4},    {2, 3, 4},
                                                      {2, 4, 5, 5}, {4, 4, 3, 3}, {300},  {3, 2, 0}, {1, 2, 3, 4, 5}};
    for (const auto& shape : shapes) {
      const Handle x = Make(shape, DType::kFloat32, 0);
      pool_.push_back(Make(shape, DType::kInt64, 3));
      pool_.push_back(Make(shape, dice_.AnyDType(), 3));
      // Views: no gradient may come of them that the base does not know.
      if (dice_.OneIn(2)) {
        EXPECT_TRUE(client_.RequireGrad(x).ok());
        leaves_.push_back(x);
      }
      pool_.push_back(x);
      std::vector<int64_t> wide = shape;
      wide.insert(wide.begin(), 3);
      pool_.push_back(client_.Op("expand", {x}, {Value::Ints(wide)}));
      if (shape.size() >= 2) pool_.push_back(client_.Op("transpose", {x}, {Value::Int(0), Value::Int(-1)}));
      if (!shape.empty())
        pool_.push_back(client_.Op("slice", {x}, {Value::Int(0), Value::Int(1), Value(), Value::Int(1)}));
    }
    // Views whose elements lie on each other.
    const Handle base = Make({20}, DType::kFloat32, 0);
    for (const auto& strides : {std::vector<int64_t>{1, 1}, {2, 1}, {1, 2}, {0, 3}}) {
      pool_.push_back(client_.Op("_as_strided", {base},
                                 {Value::Ints(std::vector<int64_t>{3, 4}), Value::Ints(strides), Value::Int(1)}));
    }
    kept_ = pool_.size();
  }
  Handle Any() { return pool_[dice_.Below(static_cast<uint32_t>(pool_.size()))]; }

  // A sample's operand, or one with the same sizes but other strides or dtype.
  Handle FromSample(const SampleArg& arg) {
    std::vector<int64_t> sizes = arg.sizes;
    DType dtype = arg.dtype;
    if (dice_.OneIn(12)) dtype = dice_.AnyDType();
    if (!sizes.empty() && dice_.OneIn(16)) sizes[dice_.Below(static_cast<uint32_t>(sizes.size()))] = dice_.Below(4);
    if (dice_.OneIn(24)) sizes.insert(sizes.begin(), 1 + dice_.Below(2));
    const uint32_t kind = arg.transposed ? 1 : dice_.Below(6);
    const std::string key =
        absl::StrCat(absl::StrJoin(sizes, ","), "/", static_cast<int>(dtype), "/", arg.below, "/", kind);
    Handle& handle = made_[key];
    if (handle != 0) return handle;
    if (kind == 1 && !arg.transposed) std::reverse(sizes.begin(), sizes.end());
    const std::vector<int64_t> full = sizes;
    if (kind == 2 && !sizes.empty()) sizes[dice_.Below(static_cast<uint32_t>(sizes.size()))] = 1;
    handle = Make(sizes, dtype, arg.below);
    if (IsFloating(dtype) && dice_.OneIn(2) && client_.RequireGrad(handle).ok()) leaves_.push_back(handle);
    Handle view = 0;
    if (kind == 1) {
      std::vector<int64_t> order;
      for (size_t d = sizes.size(); d-- > 0;) order.push_back(static_cast<int64_t>(d));
      view = client_.Op("permute", {handle}, {Value::Ints(order)});
    } else if (kind == 2 && sizes != full) {
      view = client_.Op("expand", {handle}, {Value::Ints(full)});
    }
    if (view != 0 && client_.Holds(view)) {
      others_.push_back(handle);
      handle = view;
    }
    return handle;
  }

  // ---- commands

  void Arguments(v1::Command* command) {
    static const auto* const all = [] {
      auto* out = new std::vector<std::vector<SampleCall>>;
      for (int i = 0; i < OpTable::Get().size(); ++i)
        out->push_back(telensor::testing::ReadSamples(OpTable::Get().at(i)));
      return out;
    }();
    const std::vector<SampleCall>& samples = (*all)[schema_->id];
    const SampleCall* const sample =
        !samples.empty() && !dice_.OneIn(4) ? &samples[dice_.Below(samples.size())] : nullptr;
    // One shape for most operands of a call: then rules let it through.
    const Handle favourite = Any();
    values_.clear();
    scalars_.clear();
    for (int k = 0; k < schema_->num_params; ++k) {
      const Param& param = schema_->params[k];
      const SampleArg* const given = sample != nullptr && (*sample)[k] ? &*(*sample)[k] : nullptr;
      if (IsTensorType(param.type)) {
        Operands(param, given, favourite, command);
      } else {
        values_.push_back(Attribute(param, sample, given));
      }
    }
    for (const Value& v : values_) TestClient::Fill(v, command->add_attributes());
  }

  void Operands(const Param& param, const SampleArg* given, Handle favourite, v1::Command* command) {
    const bool list = param.type == ParamType::kTensorList;
    const bool same = given != nullptr && !dice_.OneIn(12);
    const size_t count = !list ? 1 : same ? given->list.size() : dice_.Below(5);
    for (size_t i = 0; i < count; ++i) {
      const SampleArg* const arg = same ? list ? &given->list[i] : given : nullptr;
      Handle handle = 0;
      if (arg != nullptr && arg->is_tensor) {
        handle = FromSample(*arg);
      } else if (arg == nullptr && !(param.optional && dice_.OneIn(2)) && !dice_.OneIn(50)) {
        handle = dice_.OneIn(3) ? Any() : favourite;
      }
      Value number;
      if (param.type == ParamType::kTensorOrScalar) {
        if (arg != nullptr && arg->value.is_number()) number = arg->value;
        if (dice_.OneIn(10)) number = dice_.Of(ParamType::kScalar);
        if (number.is_number()) handle = 0;
        if (handle == 0 && !number.is_number()) number = Value::Int(1);
      }
      command->add_inputs(handle);
      if (handle == 0 && number.is_number()) TestClient::Fill(number, command->add_scalars());
      scalars_.push_back(handle == 0 ? number.scalar() : Scalar());
    }
  }

  Value Attribute(const Param& param, const SampleCall* sample, const SampleArg* given) {
    if (sample != nullptr && !dice_.OneIn(10)) {
      const Value value = given != nullptr ? given->value : OpTable::Get().literal(param.default_literal);
      return dice_.OneIn(16) ? dice_.Near(value) : value;
    }
    return param.optional && dice_.OneIn(2) ? Value() : dice_.Of(param.type);
  }

  // What a client's rules make of it.
  absl::Status Infer(const v1::Command& command, OpMetas* out) {
    std::vector<const TensorMeta*> metas;
    for (const Handle h : command.inputs()) metas.push_back(client_.Holds(h) ? &client_.Meta(h) : nullptr);
    std::vector<const Value*> attrs;
    for (const Value& v : values_) attrs.push_back(&v);
    OpArgs args;
    args.schema = schema_;
    args.inputs = metas.data();
    args.scalars = scalars_.data();
    args.num_inputs = static_cast<int>(metas.size());
    args.attrs = attrs.data();
    TD_RETURN_IF_ERROR(CheckAttributes(*schema_, attrs.data()));
    return InferMeta(args, out);
  }

  // ---- answers

  absl::Status Outcome(const v1::Command& command) {
    absl::Status status = client_.Error();
    for (const Handle h : command.outputs()) {
      if (status.ok()) status = client_.Poison(h);
    }
    return status;
  }
  std::string What(const v1::Command& command) {
    std::string text = absl::StrCat(schema_->name, "(");
    for (const Handle h : command.inputs()) {
      if (!client_.Holds(h)) {
        absl::StrAppend(&text, "-, ");
        continue;
      }
      const TensorMeta& m = client_.Meta(h);
      absl::StrAppend(&text, std::string(DTypeName(m.dtype)), m.sizes.ToString(), " by ", m.strides.ToString(), ", ");
    }
    for (const Value& v : values_) {
      absl::StrAppend(&text,
                      v.kind() == Value::Kind::kInts     ? absl::StrCat("[", absl::StrJoin(v.ints(), ", "), "]")
                      : v.kind() == Value::Kind::kString ? v.text()
                      : v.none()                         ? "None"
                                 : absl::StrCat(v.kind() == Value::Kind::kFloat ? v.f() : v.i()),
                      ", ");
    }
    return absl::StrCat(text, ") flags ", command.flags());
  }
  void Check(const absl::Status& status, const v1::Command& command) {
    EXPECT_NE(status.code(), absl::StatusCode::kInternal) << What(command) << "\n" << status;
    EXPECT_NE(status.code(), absl::StatusCode::kUnknown) << What(command) << "\n" << status;
  }
  void CheckMeta(const v1::Command& command, const TensorMeta& want, const TensorMeta& have) {
    EXPECT_EQ(want.sizes.ToString(), have.sizes.ToString()) << What(command);
    EXPECT_EQ(DTypeName(want.dtype), DTypeName(have.dtype)) << What(command);
  }

  // Some results are operands of what follows.
  void Keep(const v1::Command& command) {
    for (const Handle h : command.outputs()) {
      if (client_.Holds(h) && client_.Meta(h).numel() < 1000 && pool_.size() < kept_ + 60) {
        pool_.push_back(h);
      } else {
        client_.Release({h});
      }
    }
    if (pool_.size() >= kept_ + 60) {
      for (size_t i = kept_; i < pool_.size(); ++i) client_.Release({pool_[i]});
      pool_.resize(kept_);
    }
    if (made_.size() > 300) {
      for (const auto& [key, handle] : made_) client_.Release({handle});
      client_.Release(others_);
      others_.clear();
      made_.clear();
      leaves_.erase(std::remove_if(leaves_.begin(), leaves_.end(), [&](Handle h) { return !client_.Holds(h); }),
                    leaves_.end());
    }
  }

  // From the last result, and every other time a second time over the gradient.
  void Backward() {
    const Handle root = pool_.back();
    const uint32_t flags = client_.record;
    const Handle sum = client_.Op("sum", {root}, {Value(), Value::Bool(false), Value()});
    if (!leaves_.empty() && client_.Holds(sum)) {
      const Handle leaf = leaves_[dice_.Below(static_cast<uint32_t>(leaves_.size()))];
      std::vector<Handle> grads;
      if (dice_.OneIn(2)) {
        Passes(client_.Backward(sum, {}, &grads));
      } else {
        const Handle grad = client_.NewHandle(), twice = client_.NewHandle();
        Passes(Grad(sum, leaf, grad));
        if (client_.Holds(grad)) {
          const Handle again = client_.Op("sum", {grad}, {Value(), Value::Bool(false), Value()});
          Passes(Grad(again, leaf, twice));
          client_.Release({again});
        }
        client_.Release({grad, twice});
      }
      (void)client_.Simple(v1::Command::KIND_CLEAR_GRAD, {leaf});
    }
    client_.Release({sum});
    client_.record = flags;
  }
  absl::Status Grad(Handle root, Handle leaf, Handle grad) {
    v1::Command command;
    command.set_kind(v1::Command::KIND_GRAD);
    command.set_flags(v1::COMMAND_FLAG_CREATE_GRAPH | v1::COMMAND_FLAG_RETAIN_GRAPH | v1::COMMAND_FLAG_ALLOW_UNUSED);
    command.add_sizes(1);
    for (const Handle h : {root, Handle{0}, leaf}) command.add_inputs(h);
    command.add_outputs(grad);
    client_.Run(command);
    return Outcome(command);
  }
  void Passes(const absl::Status& status) {
    EXPECT_NE(status.code(), absl::StatusCode::kInternal) << "backward, last of " << schema_->name << ": " << status;
  }

  TestClient& client_;
  Dice dice_;
  std::vector<Handle> pool_, leaves_, others_;
  std::map<std::string, Handle> made_;
  size_t kept_ = 0;
  const OpSchema* schema_ = nullptr;
  std::vector<Value> values_;
  std::vector<Scalar> scalars_;
  int carried_out_ = 0;
  const bool trace_ = std::getenv("TELENSOR_FUZZ_TRACE") != nullptr;
};

// Tensors of another session, among those of the first in memory.
class Neighbour {
 public:
  explicit Neighbour(TestClient* client) : client_(*client) { Grow(); }

  void Grow() {
    for (int64_t n : {1, 16, 60, 250, 1000}) {
      std::vector<float> values(static_cast<size_t>(n));
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(tensors_.size() * 1000 + i);
      tensors_.push_back(client_.Write(values, {n}));
    }
  }
  void Check() {
    for (size_t t = 0; t < tensors_.size(); ++t) {
      const std::vector<double> values = client_.Values(tensors_[t]);
      for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(values[i], static_cast<float>(t * 1000 + i)) << "tensor " << t << " at " << i;
      }
    }
  }

 private:
  TestClient& client_;
  std::vector<Handle> tensors_;
};

std::vector<uint32_t> Seeds() {
  unsigned from = 1, to = 4;
  if (const char* given = std::getenv("TELENSOR_FUZZ_SEEDS")) {
    if (std::sscanf(given, "%u %u", &from, &to) != 2 || from > to) {
      std::fprintf(stderr, "TELENSOR_FUZZ_SEEDS is '%s', not two numbers\n", given);
      std::abort();
    }
  }
  std::vector<uint32_t> out;
  for (; from <= to; ++from) out.push_back(from);
  return out;
}

class ExecutorFuzzTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(ExecutorFuzzTest, TheServerLives) {
  TestDevices devices(rt::CpuBackend());
  TestClient client(devices.all(), 2 << 20), other(devices.all());  // large results are refused before they cost time
  Neighbour neighbour(&other);
  Fuzz fuzz(&client, GetParam());
  for (int round = 0; round < 10000; ++round) {
    fuzz.Round();
    // Until its client has heard of a failure, what was to be written is used by nobody.
    if (round % 4 == 3) (void)client.Fence();
    if (round % 1000 == 0) neighbour.Grow();
  }
  EXPECT_GT(fuzz.carried_out(), 4000) << "most commands do not get as far as a kernel";
  neighbour.Check();
  const Handle x = client.Write({1, 2}, {2});
  EXPECT_THAT(client.Values(client.Op("add", {x, x})), ::testing::ElementsAre(2, 4));
}

INSTANTIATE_TEST_SUITE_P(Seeds, ExecutorFuzzTest, ::testing::ValuesIn(Seeds()));

}  // namespace
}  // namespace telensor::server
