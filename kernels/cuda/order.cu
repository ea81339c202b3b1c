// sort and topk: all lines at once, by one stable radix sort of keys (kernels/sort_key.h), so ties keep their order.
#include "kernels/cuda/kernel.cuh"
#include "kernels/cuda/sort.h"
#include "kernels/sort_key.h"

namespace telensor::cuda {
namespace {

// Element i is element i % length of line i / length.
template <typename U>
struct KeyOfElement {
  Locator places;
  const U* in;
  KeyRule rule;
  bool descending;
  int64_t length;
  int line_shift;  // where the line's number stands in the key; 64: nowhere
  uint64_t* keys;
  int64_t* values;
  __device__ void operator()(int64_t i) const {
    const uint64_t key = SortKey<U>(rule, descending, in[places(i)]);
    keys[i] = line_shift < 64 ? key | static_cast<uint64_t>(i / length) << line_shift : key;
    values[i] = i;
  }
};
struct LineOfValue {
  const int64_t* values;
  int64_t length;
  uint64_t* keys;
  __device__ void operator()(int64_t i) const { keys[i] = static_cast<uint64_t>(values[i] / length); }
};

// The numbers of all elements, line by line, each line in order. NULL after a failure.
template <typename U>
const int64_t* OrderLines(tt_call* call, const KeyOfElement<U>& fill, int64_t lines, int* code) {
  KeyOfElement<U> element = fill;
  const int64_t n = lines * element.length;
  auto* space = static_cast<uint64_t*>(Workspace(call, n * 32, code));
  if (space == nullptr) return nullptr;
  uint64_t *keys = space, *sorted_keys = space + n;
  auto *values = reinterpret_cast<int64_t*>(space + 2 * n), *sorted = values + n;
  const int key_bits = 8 * static_cast<int>(sizeof(U));
  const int line_bits = lines > 1 ? BitsOf(static_cast<uint64_t>(lines - 1)) : 0;
  const bool together = line_bits > 0 && key_bits + line_bits <= 64;
  element.line_shift = together ? key_bits : 64;
  element.keys = keys;
  element.values = values;
  *code = ForEach(call, n, element);
  if (*code == TT_OK)
    *code = SortPairs(call, n, keys, sorted_keys, values, sorted, key_bits + (together ? line_bits : 0));
  if (*code == TT_OK && line_bits > 0 && !together) {
    // The keys leave no room for the line: a second sort, which keeps the order of the first within each line.
    *code = ForEach(call, n, LineOfValue{sorted, element.length, keys});
    if (*code == TT_OK) *code = SortPairs(call, n, keys, sorted_keys, sorted, values, line_bits);
    sorted = values;
  }
  return *code == TT_OK ? sorted : nullptr;
}

// Item i is place i % keep of line i / keep.
template <typename U>
struct TakeSorted {
  const int64_t* sorted;
  int64_t length, keep;
  Locator in_places, out_places;
  const U* in;
  U* values;
  int64_t* indices;
  __device__ void operator()(int64_t i) const {
    const int64_t line = i / keep, from = sorted[line * length + i % keep], to = out_places(i);
    values[to] = in[in_places(from)];
    indices[to] = from - line * length;
  }
};

// Sorts along `dim` and keeps as much as the outputs hold.
int SortLines(tt_call* call, int64_t wanted_dim, bool descending) {
  const tt_tensor &in = call->inputs[0], &values = call->outputs[0], &indices = call->outputs[1];
  if (values.numel == 0) return TT_OK;
  const int dim = WrapDim(wanted_dim, in.rank);
  const int64_t length = in.rank > 0 ? in.sizes[dim] : 1, keep = values.rank > 0 ? values.sizes[dim] : 1;
  // The sorted dimension is walked last.
  Dims<1> from, to;
  for (int d = 0; d < in.rank; ++d) {
    if (d != dim) from.Add(in.sizes[d], {in.strides[d]}), to.Add(values.sizes[d], {values.strides[d]});
  }
  if (in.rank > 0) from.Add(length, {in.strides[dim]}), to.Add(keep, {values.strides[dim]});
  const int64_t lines = in.numel / length;
  return DispatchSize(ElementSize(in.dtype), [&](auto tag) {
    using U = typename decltype(tag)::type;
    const Locator in_places(from), out_places(to);
    const U* data = static_cast<const U*>(in.data);
    int code = TT_OK;
    const int64_t* sorted = OrderLines<U>(
        call, {in_places, data, KeyRuleOf(in.dtype), descending, length, 64, nullptr, nullptr}, lines, &code);
    if (sorted == nullptr) return code;
    return ForEach(call, lines * keep,
                   TakeSorted<U>{sorted, length, keep, in_places, out_places, data, static_cast<U*>(values.data),
                                 static_cast<int64_t*>(indices.data)});
  });
}

int Sort(tt_call* call) { return SortLines(call, call->attrs[0].i, call->attrs[1].i != 0); }
int TopK(tt_call* call) { return SortLines(call, call->attrs[1].i, call->attrs[2].i != 0); }

}  // namespace

void AppendOrderKernels(KernelList* list) {
  list->push_back({"sort", TT_ALL_DTYPES, OnDevice<Sort>});
  list->push_back({"topk", TT_FLOATING | TT_INTEGER, OnDevice<TopK>});
}

}  // namespace telensor::cuda
