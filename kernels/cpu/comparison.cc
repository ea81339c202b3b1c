// Rows of comparison.toml, and the choosing ones: where, masked_fill.
#include "kernels/cpu/families.h"
#include "kernels/cpu/loops.h"
#include "kernels/functors.h"

namespace telensor::cpu::TT_CPU_VARIANT {
namespace {

namespace f = functors;

template <typename Fn>
int Compare(tt_call* call) {
  return DispatchAll(call, call->inputs[0].dtype, [&](auto tag) {
    BinaryLoop<bool, typename decltype(tag)::type>(call, Fn());
    return TT_OK;
  });
}

// out = condition ? a : b, by the size of an element alone.
template <typename T>
void Choose(const tt_tensor& out, const tt_tensor& condition, const tt_tensor& a, const tt_tensor& b) {
  const tt_tensor* const tensors[4] = {&out, &condition, &a, &b};
  ForEachRow<4>(tensors, {sizeof(T), 1, sizeof(T), sizeof(T)}, [](char* const* p, int64_t n, const int64_t* step) {
    for (int64_t i = 0; i < n; ++i) {
      const bool c = *reinterpret_cast<const uint8_t*>(p[1] + i * step[1]) != 0;
      *reinterpret_cast<T*>(p[0] + i * step[0]) = *reinterpret_cast<const T*>(c ? p[2] + i * step[2] : p[3] + i * step[3]);
    }
  });
}

int ChooseBySize(tt_call* call, const tt_tensor& condition, const tt_tensor& a, const tt_tensor& b) {
  const tt_tensor& out = call->outputs[0];
  switch (out.dtype) {
    case TT_BOOL:
    case TT_UINT8:
    case TT_INT8: Choose<uint8_t>(out, condition, a, b); break;
    case TT_INT16:
    case TT_FLOAT16:
    case TT_BFLOAT16: Choose<uint16_t>(out, condition, a, b); break;
    case TT_INT32:
    case TT_FLOAT32: Choose<uint32_t>(out, condition, a, b); break;
    default: Choose<uint64_t>(out, condition, a, b);
  }
  return TT_OK;
}

int Where(tt_call* call) { return ChooseBySize(call, call->inputs[0], call->inputs[1], call->inputs[2]); }
int MaskedFill(tt_call* call) { return ChooseBySize(call, call->inputs[1], call->inputs[2], call->inputs[0]); }

}  // namespace

void AppendComparisonKernels(KernelList* list) {
#define X(row, fn) list->push_back({row, TT_ALL_DTYPES, Compare<f::fn>});
  TT_COMPARISON_OPS(X)
#undef X
  list->push_back({"where", TT_ALL_DTYPES, Where});
  list->push_back({"masked_fill", TT_ALL_DTYPES, MaskedFill});
}

}  // namespace telensor::cpu::TT_CPU_VARIANT
