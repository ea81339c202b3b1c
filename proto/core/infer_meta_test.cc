// InferMeta as a whole: devices, absent arguments, flags, and calls that a malicious peer could make.
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "proto/core/rule_testing.h"
#include "proto/core/sample_testing.h"

namespace telensor::testing {
namespace {

int Device(const char* op, const Args& args) {
  const absl::StatusOr<OpMetas> metas = Infer(op, args);
  return metas.ok() ? metas->outputs[0].device : -1;
}

TEST(InferMeta, OutputsLiveWhereTheInputsDo) {
  EXPECT_EQ(Device("add", {On(1, F({2})), On(1, F({2}))}), 1);
  EXPECT_EQ(Device("add", {On(1, F({2})), 1}), 1);
  EXPECT_EQ(Device("add", {F({}), On(1, F({2}))}), 1);
  EXPECT_EQ(Device("add", {On(1, F({2})), F({})}), 1);
  EXPECT_EQ(Device("add", {F({}), On(1, F({}))}), 1);
  EXPECT_EQ(Device("lerp", {On(1, F({2})), On(1, F({2})), F({})}), 1);
  EXPECT_EQ(Device("copy_", {On(1, F({2})), F({2})}), 1);
  EXPECT_EQ(Device("copy_", {F({2}), On(1, F({2}))}), 0);
  EXPECT_EQ(Device("fill_", {On(1, F({2})), F({})}), 1);
  EXPECT_EQ(Device("zeros", {Ints{2}}), 0);
  EXPECT_EQ(Device("zeros_like", {On(2, F({2}))}), 2);
  EXPECT_EQ(
      Result("add", {On(1, F({2})), F({2})}),
      "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, device 1 and cpu!");
  EXPECT_EQ(
      Result("add", {F({2}), On(1, F({}))}),
      "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cpu and device 1!");
  EXPECT_EQ(Result("mm", {On(1, F({2, 2})), On(2, F({2, 2}))}),
            "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, device 1 and "
            "device 2!");
}

TEST(InferMeta, AbsentTensors) {
  EXPECT_EQ(Result("linear", {F({2, 3}), F({4, 3}), None}), "float32[2, 4]");
  EXPECT_EQ(Result("linear", {F({2, 3}), None}), "RuntimeError: linear(): argument 'weight' must be a Tensor");
  EXPECT_EQ(Result("add", {F({2}), None}), "RuntimeError: add(): argument 'other' must be a Tensor");
  EXPECT_EQ(Result("exp", {1.5}), "RuntimeError: exp(): argument 'self' must be a Tensor");
  EXPECT_EQ(Result("cat", {List{F({2}), TensorMeta()}}), "RuntimeError: cat(): argument 'tensors' must be a Tensor");
}

TEST(InferMeta, Flags) {
  EXPECT_TRUE(Infer("contiguous", {F({2, 3})})->identity);
  EXPECT_FALSE(Infer("contiguous", {Strided(F({2, 3}), {1, 2})})->identity);
  EXPECT_TRUE(Infer("to", {F({2}), DType::kFloat32})->identity);
  EXPECT_FALSE(Infer("to", {F({2}), DType::kFloat64})->identity);
  EXPECT_FALSE(Infer("to", {F({2}), None, None, true})->identity);
  EXPECT_TRUE(Infer("reshape", {F({2, 3}), Ints{6}})->aliases);
  EXPECT_FALSE(Infer("reshape", {Strided(F({2, 3}), {1, 2}), Ints{6}})->aliases);
  EXPECT_TRUE(Infer("view_as", {F({2, 3}), F({6})})->aliases);
  EXPECT_TRUE(Infer("nonzero", {F({2, 3})})->dynamic);
  EXPECT_TRUE(Infer("masked_select", {F({2, 3}), B({2, 3})})->dynamic);
  EXPECT_TRUE(Infer("one_hot", {I({3}), -1})->dynamic);
  EXPECT_FALSE(Infer("one_hot", {I({3}), 4})->dynamic);
}

TEST(InferMeta, SaysWhatToCast) {
  const OpMetas add = *Infer("add", {I({2}), 1.5});
  EXPECT_EQ(add.compute, DType::kFloat32);
  EXPECT_EQ(add.cast, 3u);
  const OpMetas compare = *Infer("lt", {I({2}), F({2})});
  EXPECT_EQ(compare.compute, DType::kFloat32);
  EXPECT_EQ(compare.cast, 3u);
  EXPECT_EQ(Infer("where", {B({2}), F({2}), D({2})})->cast, 6u);
  EXPECT_EQ(Infer("sum", {B({2})})->compute, DType::kInt64);
  EXPECT_EQ(Infer("cat", {List{I({2}), F({2})}})->cast, 1u);
  const OpMetas fill = *Infer("masked_fill", {I({2}), B({2}), 1.5});
  EXPECT_EQ(fill.compute, DType::kInt64);
  EXPECT_EQ(fill.cast, 4u);
  EXPECT_EQ(Infer("mm", {F({2, 2}), F({2, 2})})->compute, DType::kNone);
}

TEST(InferMeta, FusedSteps) {
  const Arg lr = 0.1, zero = 0.0;
  const auto sgd = [&](List tensors, int groups) {
    return Result("_sgd_step_", {std::move(tensors), groups, lr, zero, zero, zero, false, false, true});
  };
  EXPECT_EQ(sgd({F({2}), F({3}), F({2}), F({3})}, 2), "");
  EXPECT_EQ(sgd({}, 2), "");
  EXPECT_EQ(sgd({F({2}), F({3}), F({3}), F({2})}, 2),
            "RuntimeError: _sgd_step_: tensor 2 has size [3], its parameter [2]");
  EXPECT_EQ(sgd({F({2}), D({2})}, 2), "RuntimeError: _sgd_step_: tensor 1 has another dtype than its parameter");
  EXPECT_EQ(sgd({F({2}), F({2}), F({2})}, 2), "RuntimeError: _sgd_step_: 3 tensors can't be cut into 2 groups");
  EXPECT_NE(sgd({I({2}), I({2})}, 2), "");
  EXPECT_NE(sgd({F({2}), F({2})}, 0), "");
  EXPECT_NE(sgd({On(1, F({2})), F({2})}, 2), "");
}

TEST(CheckAttributes, RefusesWrongKindsAndLengths) {
  const OpSchema& pool = *OpTable::Get().Find("adaptive_avg_pool2d");
  const auto check = [&pool](const Value& v) {
    const Value* attrs[] = {&v};
    return CheckAttributes(pool, attrs).ok();
  };
  EXPECT_TRUE(check(Value::Ints(Ints{1, 2})));
  EXPECT_FALSE(check(Value()));
  for (const Value& v : {Value::Int(1), Value::Bool(true), Value::Float(1), Value::String("x"),
                         Value::Type(DType::kBool), Value::Device(0), Value::Floats({1})}) {
    EXPECT_FALSE(check(v));
  }
  EXPECT_EQ(Result("adaptive_avg_pool2d", {F({1, 2, 2}), Ints{1}}),
            "RuntimeError: adaptive_avg_pool2d(): argument 'output_size' must have 2 elements, not 1");
}

// ---- Whatever a peer says ----

class Fuzzer {
 public:
  explicit Fuzzer(unsigned seed) : random_(seed) {}

  int Below(int n) { return static_cast<int>(random_() % n); }
  bool OneIn(int n) { return Below(n) == 0; }

  int64_t Number() {
    constexpr int64_t kNasty[] = {0,
                                  1,
                                  -1,
                                  2,
                                  3,
                                  255,
                                  256,
                                  int64_t{1} << 31,
                                  (int64_t{1} << 31) - 1,
                                  -(int64_t{1} << 31),
                                  int64_t{1} << 32,
                                  int64_t{1} << 59,
                                  int64_t{1} << 62,
                                  -(int64_t{1} << 62),
                                  std::numeric_limits<int64_t>::max(),
                                  std::numeric_limits<int64_t>::min()};
    if (tame_) return Below(3);
    return OneIn(3) ? kNasty[Below(std::size(kNasty))] : Below(7) - 2;
  }
  double Float() {
    const double nasty[] = {0,     -0.0,   1,        -1,        0.5,          2.5,    1e-300,
                            1e300, -1e300, HUGE_VAL, -HUGE_VAL, std::nan(""), 9.3e18, 1e15};
    return nasty[Below(std::size(nasty))];
  }
  DType AnyDType() { return static_cast<DType>(1 + Below(kNumDTypes - 1)); }
  Scalar Number(bool) {
    switch (Below(3)) {
      case 0: return Scalar(OneIn(2));
      case 1: return Scalar(Number());
      default: return Scalar(Float());
    }
  }

  // Mostly small and alike, so that rules get past their first check.
  void Shape() {
    tame_ = OneIn(3);
    rank_ = OneIn(8) ? Below(kMaxRank + 1) : Below(5);
    const int64_t even = 1 + Below(3);
    for (int64_t& s : sizes_) s = tame_ ? even : OneIn(4) ? 1 : Below(4);
    dtype_ = OneIn(2) ? DType::kFloat32 : AnyDType();
  }
  TensorMeta Tensor() {
    TensorMeta m;
    m.dtype = OneIn(tame_ ? 3 : 5) ? (OneIn(2) ? DType::kInt64 : AnyDType()) : dtype_;
    m.device = OneIn(12) ? Below(3) : 0;
    const int rank = !OneIn(3) ? rank_ : OneIn(2) ? std::max(rank_ - 1, 0) : Below(OneIn(8) ? kMaxRank + 1 : 5);
    for (int i = 0; i < rank; ++i) m.sizes.push_back(!tame_ && OneIn(4) ? Below(4) : sizes_[i]);
    m.strides = ContiguousStrides(m.sizes);
    if (OneIn(3)) {
      for (int i = 0; i + 1 < rank; ++i) {
        const int j = i + Below(rank - i);
        std::swap(m.sizes[i], m.sizes[j]);
        std::swap(m.strides[i], m.strides[j]);
      }
    }
    if (OneIn(6)) m.offset = Below(100);
    if (!tame_ && OneIn(8)) {
      for (int64_t& s : m.sizes) s = OneIn(2) ? Number() : s;
      if (OneIn(2)) {
        for (int64_t& s : m.strides) s = Number();
      } else if (CheckedNumel(m.sizes) >= 0) {
        m.strides = ContiguousStrides(m.sizes);
      }
      if (OneIn(3)) m.offset = Number();
      if (OneIn(20)) m.dtype = static_cast<DType>(Below(256));
    }
    return m;
  }

  Value Attribute(const Param& p) {
    if (p.optional && OneIn(3)) return Value();
    if (p.default_literal >= 0 && OneIn(3)) return OpTable::Get().literal(p.default_literal);
    switch (p.type) {
      case ParamType::kInt: return Value::Int(Number());
      case ParamType::kFloat: return Value::Float(Float());
      case ParamType::kBool: return Value::Bool(OneIn(2));
      case ParamType::kScalar: return Value::Number(Number(true));
      case ParamType::kDType: return Value::Type(AnyDType());
      case ParamType::kDevice: return Value::Device(Below(256));
      case ParamType::kString: {
        const char* words[] = {"mean", "sum", "none", "tanh", "floor", "trunc", "", "x"};
        return Value::String(words[Below(tame_ ? 3 : static_cast<int>(std::size(words)))]);
      }
      default: {
        Ints v;
        const int n = p.length > 0 ? p.length : OneIn(3) ? Below(20) : rank_;
        for (int i = 0; i < n; ++i) v.push_back(OneIn(3) && i < kMaxRank ? sizes_[i] : Number());
        return Value::Ints(std::move(v));
      }
    }
  }

  bool tame_ = false;
  int rank_ = 0;
  int64_t sizes_[kMaxRank] = {};
  DType dtype_ = DType::kFloat32;
  std::mt19937_64 random_;
};

// The furthest element of a non-empty tensor.
int64_t Reach(const TensorMeta& m) {
  int64_t reach = m.offset;
  for (int i = 0; i < m.rank(); ++i) reach += (m.sizes[i] - 1) * m.strides[i];
  return reach;
}

void CheckOutputs(const OpSchema& op, const OpMetas& out, const TensorMeta* self) {
  if (!op.returns_list) {
    ASSERT_EQ(static_cast<int>(out.outputs.size()), op.num_outputs);
  }
  for (const TensorMeta& m : out.outputs) {
    ASSERT_TRUE(IsValid(m.dtype));
    ASSERT_EQ(m.strides.size(), m.rank());
    const int64_t numel = CheckedNumel(m.sizes);
    ASSERT_GE(numel, 0) << m.sizes.ToString();
    ASSERT_GE(m.offset, 0);
    for (int64_t s : m.strides) ASSERT_GE(s, 0);
    // A view stays within what its base reaches.
    if ((op.kind == OpKind::kView || out.aliases || out.identity) && numel > 0) {
      ASSERT_GT(self->numel(), 0);
      ASSERT_LE(Reach(m), Reach(*self));
      ASSERT_GE(m.offset, self->offset);
    } else if (op.kind != OpKind::kView && !out.aliases && !out.identity && !op.inplace_only && !op.has_inplace) {
      ASSERT_EQ(m.offset, 0);
    }
  }
}

TEST(InferMeta, SurvivesAnyPeer) {
  Fuzzer fuzz(20240901);
  int accepted = 0;
  std::vector<int> accepted_by_row(OpTable::Get().size(), 0);
  std::vector<std::vector<SampleCall>> samples;
  for (int id = 0; id < OpTable::Get().size(); ++id) samples.push_back(ReadSamples(OpTable::Get().at(id)));
  for (int round = 0; round < 4000; ++round) {
    for (int id = 0; id < OpTable::Get().size(); ++id) {
      const OpSchema& op = OpTable::Get().at(id);
      fuzz.Shape();
      // Some calls are one of the row's samples, less an argument or two.
      const std::vector<SampleCall>& calls = samples[id];
      const SampleCall* const sample = !calls.empty() && fuzz.OneIn(4) ? &calls[fuzz.Below(calls.size())] : nullptr;
      const auto from_sample = [&](const Param& p) {
        return sample != nullptr && !fuzz.OneIn(8) ? &(*sample)[&p - op.params] : nullptr;
      };
      std::vector<TensorMeta> metas;
      std::vector<int> places;  // index into metas, or -1
      std::vector<Scalar> scalars;
      const auto add = [&](const Param& p) {
        const auto* const given = from_sample(p);
        if (given != nullptr && given->has_value() && (*given)->is_tensor) {
          places.push_back(static_cast<int>(metas.size()));
          scalars.emplace_back();
          metas.push_back(Meta((*given)->dtype, Dims((*given)->sizes)));
          return;
        }
        const bool number = p.type == ParamType::kTensorOrScalar && fuzz.OneIn(4);
        const bool absent = number || fuzz.OneIn(p.optional ? 3 : 200);
        places.push_back(absent ? -1 : static_cast<int>(metas.size()));
        if (!absent) metas.push_back(fuzz.Tensor());
        scalars.push_back(number ? fuzz.Number(true) : Scalar());
      };
      for (int k = 0; k < op.num_inputs; ++k) {
        const int n = k == op.list_slot ? fuzz.Below(5) : fuzz.OneIn(500) ? 0 : 1;
        for (int j = 0; j < n; ++j) add(*op.input_params[k]);
      }
      std::vector<const TensorMeta*> inputs;
      for (int place : places) inputs.push_back(place < 0 ? nullptr : &metas[place]);
      std::vector<Value> values;
      std::vector<const Value*> attrs;
      for (int k = 0; k < op.num_attrs; ++k) {
        const Param& p = *op.attr_params[k];
        const auto* const given = from_sample(p);
        if (given == nullptr) {
          values.push_back(fuzz.Attribute(p));
        } else {
          values.push_back(given->has_value() ? (*given)->value : OpTable::Get().literal(p.default_literal));
        }
      }
      for (const Value& v : values) attrs.push_back(&v);
      OpArgs call;
      call.schema = &op;
      call.inputs = inputs.data();
      call.scalars = fuzz.OneIn(50) ? nullptr : scalars.data();
      call.num_inputs = static_cast<int>(inputs.size());
      call.attrs = attrs.data();
      call.default_float = fuzz.OneIn(3) ? DType::kFloat64 : DType::kFloat32;
      ASSERT_TRUE(CheckAttributes(op, attrs.data()).ok()) << op.name;
      OpMetas out;
      if (!InferMeta(call, &out).ok()) continue;
      ++accepted;
      ++accepted_by_row[id];
      SCOPED_TRACE(op.name);
      CheckOutputs(op, out, inputs.empty() ? nullptr : inputs[0]);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(accepted, 100000);
  for (int id = 0; id < OpTable::Get().size(); ++id) {
    EXPECT_GT(accepted_by_row[id], 0) << OpTable::Get().at(id).name
                                      << " was never accepted: the fuzzer does not reach it";
  }
}

}  // namespace
}  // namespace telensor::testing
