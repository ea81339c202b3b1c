// A client knows a result's shape, dtype and strides without asking: for every row of the op table, what its rules say is
// what the server makes, composites' formulas included, whatever the layout of the operands.
#include <gmock/gmock.h>

#include <map>

#include "proto/core/op_args.h"
#include "server/sample_calls.h"

namespace telensor::server {
namespace {

// Rows whose results are drawn have no samples.
const std::map<std::string, std::vector<std::string>> kMoreSamples = {
    {"empty", {"[2, 3]"}},
    {"empty_like", {"T[2,3]"}},
    {"rand", {"[2, 3]"}},
    {"rand_like", {"T[2,3]"}},
    {"randint", {"0, 5, [2, 3]"}},
    {"randint.high", {"5, [2, 3]"}},
    {"randint_like", {"T[2,3], 0, 5"}},
    {"randint_like.high", {"T[2,3], 5"}},
    {"randn", {"[2, 3]"}},
    {"randn_like", {"T[2,3]"}},
    {"randperm", {"5"}},
    {"_nonzero", {"T[2,3], 6"}},
    {"_one_hot", {"i64[3]<4, 5"}},
    // Roads that depend on the layout, or on what is there already.
    {"dropout", {"T[2,3], 0.4, False", "T[2,3,4], 0.0, True"}},
    {"to", {"T[2,3]", "T[2,3], float32", "T[2,3], float32, None, True", "T[2,3], float16"}},
    {"_to_copy", {"T[2,3], float32, None", "T[1,3], None, None"}},
    {"reshape",
     {"T[2,3,4], 6, 4", "T[2,3,4], 2, 12", "T[2,3,4], 24", "T[1,3], 3", "T[2,3], [2, 3]", "T[4], 2, 2", "T[], [1]",
      "T[0,3], 3, 0"}},
    {"flatten", {"T[2,3], 0, 1", "T[1,4], 0, -1", "T[4]", "T[2,3,4], 0, 1"}},
    {"contiguous", {"T[2,3]", "T[1,3]", "T[3,1]", "T[0,3]"}},
    {"clone", {"T[1,3]", "T[2,3,4]"}},
    {"repeat", {"T[2,3], 1, 1", "T[3], 1", "T[2,3], 2, 2, 1"}},
    {"binary_cross_entropy", {"T01[2,3], T01[2,3], reduction='none'", "T01[2,3], T01[3], T+[2,3], reduction='none'"}},
    {"binary_cross_entropy_with_logits",
     {"T[2,3], T01[2,3], reduction='none'", "T[2,3], T01[2,3], T+[2,3], reduction='none', pos_weight=T+[3]"}},
    {"smooth_l1_loss", {"T[2,3], T[2,3], reduction='none'", "T[2,3], T[2,3], reduction='none', beta=0.0"}},
    {"l1_loss", {"T[2,3], T[2,3], reduction='none'"}},
    {"lerp", {"T[2,3], T[2,3], 1"}},
    {"clamp.Tensor", {"T[2,3], T[2,3]", "T[2,3], None, T[3]"}},
    {"norm", {"T[2,3], 2, None, True", "T[2,3,4], 2, [0, 2], False, dtype=float64"}},
    {"_reduce_loss", {"T[2,3], 'sum'", "T[2,3,4], 'none'"}},
    {"mse_loss", {"T[2,3], T[2,3], reduction='none'", "T[1,3], T[2,1], reduction='none'"}},
    {"div.rounding_mode", {"T[2,3], T[2,3], rounding_mode=None"}},
    {"zeros_like", {"T[1,3]", "T[2,3,4]"}},
    {"full_like", {"T[2,3,4], 1", "T[2,3], 1, float16"}},
    {"softmax", {"T[2,3,4], 0"}},
    {"matmul", {"T[3,4], T[4]", "T[1,3], T[3,1]", "T[2,3,4], T[1,4,5]", "T[4], T[2,4,5]", "T[2,3,4], T[2,4,1]"}},
    {"conv1d", {"T[2,3,8], T[4,3,3]"}},
    {"unflatten", {"T[4,6], 0, [2, 2]", "T[6], 0, [2, 3]"}},
    {"expand_as", {"T[2,3], T[2,3]", "T[1,3], T[2,3]"}},
    {"view_as", {"T[2,3], T[2,3]"}},
    {"reshape_as", {"T[2,3], T[2,3]", "T[2,3], T[3,2]"}},
    {"logsumexp", {"T[2,3,4], [0, 2]"}},
    {"std", {"T[3,4], [0, 1], True, True"}},
    {"outer", {"T[1], T[3]"}},
    {"nll_loss", {"T[2,3,4], i64[2,4]<3, reduction='none'"}},
    {"batch_norm", {"T[4,3,2,2], T[3], T+[3], None, None, False"}},
    {"argsort", {"T[3,5], 0"}},
    {"max.other", {"T[2,3], T[2,3]"}},
    {"addcmul", {"T[2,3], T[2,3], T[2,3]"}},
};

std::vector<std::string> SamplesOf(const OpSchema& schema) {
  std::vector<std::string> out;
  std::string_view rest(schema.samples);
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    out.emplace_back(rest.substr(0, end));
    rest = end == std::string_view::npos ? "" : rest.substr(end + 1);
  }
  const auto more = kMoreSamples.find(schema.name);
  if (more != kMoreSamples.end()) out.insert(out.end(), more->second.begin(), more->second.end());
  return out;
}

std::string Describe(const TensorMeta& m) {
  return absl::StrCat(std::string(DTypeName(m.dtype)), m.sizes.ToString(), " strides ", m.strides.ToString(),
                      " offset ", m.offset);
}

class ExecutorMetaTest : public ::testing::Test {
 protected:
  ExecutorMetaTest() : devices_(rt::CpuBackend()), client_(devices_.all()) {}

  // What a client makes of the call before it sends it.
  absl::Status Infer(const OpSchema& schema, const SampleCall& call, OpMetas* out) {
    std::vector<const TensorMeta*> metas;
    std::vector<Scalar> scalars;
    std::vector<const Value*> attrs;
    for (const In& in : call.inputs) {
      metas.push_back(in.handle != 0 ? &client_.Meta(in.handle) : nullptr);
      scalars.push_back(in.scalar.scalar());
    }
    for (const Value& v : call.attrs) attrs.push_back(&v);
    const Value device = Value::Device(0);
    for (int i = 0; i < schema.num_attrs && schema.num_inputs == 0; ++i) {
      if (schema.attr_params[i]->type == ParamType::kDevice && attrs[i]->none()) attrs[i] = &device;
    }
    OpArgs args;
    args.schema = &schema;
    args.inputs = metas.data();
    args.scalars = scalars.data();
    args.num_inputs = static_cast<int>(metas.size());
    args.attrs = attrs.data();
    return InferMeta(args, out);
  }

  // One call, of which client and server must think the same. False where the rules refuse it.
  bool Compare(const OpSchema& schema, const SampleCall& call, const std::string& what) {
    OpMetas said;
    if (const absl::Status status = Infer(schema, call, &said); !status.ok()) return false;
    const std::vector<Handle> results =
        client_.Ops(schema.name, call.inputs, call.attrs, static_cast<int>(said.outputs.size()));
    for (size_t i = 0; i < results.size(); ++i) {
      if (!client_.Holds(results[i])) {
        ADD_FAILURE() << what << ": " << client_.Poison(results[i]) << client_.Error();
        continue;
      }
      TensorMeta want = said.outputs[i];
      const TensorMeta& made = client_.Meta(results[i]);
      if (schema.base_name[0] == '_' && schema.formula.given()) {
        // A step of other rows' formulas: no client has its result, and the engine fits gradients to their tensors.
        EXPECT_EQ(made.sizes.ToString(), want.sizes.ToString()) << what << " result " << i;
        continue;
      }
      if (said.dynamic) {
        want.sizes = made.sizes;
        want.strides = ContiguousStrides(made.sizes);
      }
      // The client gives the operand back itself.
      if (said.identity) want = client_.Meta(call.inputs[0].handle);
      EXPECT_EQ(Describe(made), Describe(want)) << what << " result " << i;
      if (call.inputs.empty() || call.inputs[0].handle == 0) continue;
      // What the client takes for a view follows writes to its base, and only that.
      const bool shares = schema.kind == OpKind::kView || said.aliases || said.identity;
      EXPECT_EQ(Storage(results[i]) == Storage(call.inputs[0].handle), shares)
          << what << " result " << i << " shares memory";
    }
    return true;
  }
  // With and without gradients; each of the operands of an odd dtype too.
  int CompareLaidOut(const OpSchema& schema, const std::string& sample, DType dtype, Layout layout, int alone) {
    int compared = 0;
    for (const bool gradients : {false, true}) {
      for (const bool odd : {false, true}) {
        if (odd && schema.base_name[0] == '_') continue;
        const auto here = [alone](size_t k) { return alone < 0 || static_cast<size_t>(alone) == k; };
        const SampleCall call = MakeCall(
            &client_, schema, sample, [&](size_t k) { return odd && here(k) ? DType::kFloat64 : dtype; },
            [&](size_t k) { return here(k) ? layout : Layout::kDense; });
        if (alone >= static_cast<int>(call.tensors.size())) continue;
        for (const Handle t : call.tensors) {
          if (gradients && IsFloating(client_.Meta(t).dtype)) {
            EXPECT_TRUE(client_.RequireGrad(t).ok());
          }
        }
        compared += Compare(
            schema, call,
            absl::StrCat(schema.name, "(", sample, ") ", std::string(DTypeName(dtype)), odd ? " and float64" : "",
                         " layout ", static_cast<int>(layout), " of ", alone, gradients ? " recorded" : ""));
      }
    }
    return compared;
  }
  const void* Storage(Handle handle) { return client_.executor.tensors().Find(handle).tensor->storage().get(); }

  TestDevices devices_;
  TestClient client_;
  Handle released_ = 0;
};

TEST_F(ExecutorMetaTest, ClientAndServerAgreeOnEveryRow) {
  const OpTable& table = OpTable::Get();
  int calls = 0;
  for (int id = 0; id < table.size(); ++id) {
    const OpSchema& schema = table.at(static_cast<OpId>(id));
    if (schema.inplace_only || schema.num_outputs == 0) continue;  // they have no results of their own
    int compared = 0;
    for (const std::string& sample : SamplesOf(schema)) {
      std::vector<DType> dtypes = {DType::kFloat32, DType::kFloat16};
      if (std::string(schema.dtypes) == "int_bool") dtypes = {DType::kInt64, DType::kBool};
      if (std::string(schema.dtypes) == "all" || std::string(schema.dtypes) == "number")
        dtypes.push_back(DType::kInt64);
      for (const DType dtype : dtypes) {
        for (const Layout layout : kLayouts) {
          // All operands in a layout, then each alone.
          for (int alone = -1; alone < 4; ++alone) compared += CompareLaidOut(schema, sample, dtype, layout, alone);
        }
      }
      // All that was made, at once.
      std::vector<Handle> all;
      for (; released_ < client_.last_handle(); ++released_) all.push_back(released_ + 1);
      client_.Release(all);
    }
    EXPECT_GT(compared, 0) << schema.name << " was never compared";
    calls += compared;
  }
  EXPECT_GT(calls, 10000);
}

// As the client has it: a leaf's gradient lies as the leaf does where that is dense, and a result's is row-major.
TEST_F(ExecutorMetaTest, ClientAndServerAgreeOnGradients) {
  const auto loss = [&](Handle x, int way) {
    switch (way) {
      case 0: return client_.Op("sum", {x}, {Value(), Value::Bool(false)});
      case 1: return client_.Op("sum", {client_.Op("mul", {x, x})}, {Value(), Value::Bool(false)});
      case 2: {  // through a transposed copy
        const Handle t = client_.Op("transpose", {x}, {Value::Int(0), Value::Int(1)});
        return client_.Op("sum", {client_.Op("exp", {client_.Op("contiguous", {t})})}, {Value(), Value::Bool(false)});
      }
      case 3:
        return client_.Op("select", {client_.Op("select", {x}, {Value::Int(0), Value::Int(1)})},
                          {Value::Int(0), Value::Int(1)});
      default: return client_.Op("sum", {client_.Op("matmul", {x, x})}, {Value(), Value::Bool(false)});
    }
  };
  int compared = 0;
  for (const Layout layout : kLayouts) {
    for (int way = 0; way < 5; ++way) {
      for (const uint32_t flags : {0U, static_cast<uint32_t>(v1::COMMAND_FLAG_CREATE_GRAPH)}) {
        const std::string what = absl::StrCat("layout ", static_cast<int>(layout), " way ", way, " flags ", flags);
        const Handle x = LaidOut(&client_, {3, 3}, DType::kFloat32, 0, layout);
        ASSERT_TRUE(client_.RequireGrad(x).ok());
        const Handle retained = client_.Op("add", {x, 1}, {Value::Int(1)});
        std::vector<Handle> grads;
        ASSERT_TRUE(client_.Backward(loss(retained, way), {x, retained}, &grads, flags).ok()) << client_.Error();
        const TensorMeta& meta = client_.Meta(x);
        const bool dense = IsNonOverlappingAndDense(meta.sizes, meta.strides);
        const Dims rows = ContiguousStrides(meta.sizes);
        EXPECT_EQ(client_.Meta(grads[0]).strides.ToString(), (dense ? meta.strides : rows).ToString()) << what;
        EXPECT_EQ(client_.Meta(grads[1]).strides.ToString(), rows.ToString()) << what << ", of a result";
        EXPECT_EQ(client_.Meta(grads[0]).offset, 0) << what;
        EXPECT_EQ(client_.Meta(grads[1]).offset, 0) << what;

        v1::Command command;
        command.set_kind(v1::Command::KIND_GRAD);
        command.set_flags(flags);
        command.add_sizes(1);
        command.add_inputs(loss(x, way));
        command.add_inputs(0);
        command.add_inputs(x);
        const Handle grad = client_.NewHandle();
        command.add_outputs(grad);
        client_.Run(command);
        ASSERT_TRUE(client_.Holds(grad)) << client_.Poison(grad);
        EXPECT_EQ(Describe(client_.Meta(grad)), absl::StrCat("float32[3, 3] strides ", rows.ToString(), " offset 0"))
            << what << ", by grad()";
        ++compared;
      }
    }
  }
  EXPECT_EQ(compared, 50);
}

}  // namespace
}  // namespace telensor::server
