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

// out = condition ? a : b, elements moved by their size alone.
template <typename T>
void Choose(const void*, void* const* at, unsigned standing, int64_t n) {
  T* out = static_cast<T*>(at[0]);
  const uint8_t* c = static_cast<const uint8_t*>(at[1]);
  const T* a = static_cast<const T*>(at[2]);
  const T* b = static_cast<const T*>(at[3]);
  const auto loop = [&](auto first, auto second) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const T x = first(i), y = second(i);
      out[i] = c[i] != 0 ? x : y;
    }
  };
  const auto each_a = [a](int64_t i) { return a[i]; };
  const auto each_b = [b](int64_t i) { return b[i]; };
  const auto same_a = [x = n > 0 ? *a : T()](int64_t) { return x; };
  const auto same_b = [y = n > 0 ? *b : T()](int64_t) { return y; };
  switch (standing) {
    case 0: return loop(each_a, each_b);
    case 4: return loop(same_a, each_b);
    case 8: return loop(each_a, same_b);
    default: return loop(same_a, same_b);
  }
}

int ChooseBySize(tt_call* call, const tt_tensor& condition, const tt_tensor& a, const tt_tensor& b) {
  constexpr DenseFn kLoops[] = {Choose<uint8_t>, Choose<uint16_t>, Choose<uint32_t>, Choose<uint64_t>};
  const tt_tensor& out = call->outputs[0];
  const Format format = RawFormat(out.dtype);
  const tt_tensor* const tensors[] = {&out, &condition, &a, &b};
  const Body body = {kLoops[static_cast<int>(format)],         nullptr, 4, 14, 1, 12,
                     {format, Format::kBytes1, format, format}};
  RunLoop(body, tensors, kGrain);
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
