// cumsum, sort, topk and _nonzero: ops about the order of elements.
//
// Sorting never looks at element types: each element becomes an unsigned key in whose order NaN is last, -0.0 equals
// 0.0 and all NaNs are equal; descending order is the order of the inverted keys. One sort serves every dtype.
#include <algorithm>
#include <atomic>
#include <utility>

#include "kernels/cpu/families.h"
#include "kernels/cpu/reduction.h"
#include "kernels/sort_key.h"

namespace telensor::cpu::TT_CPU_VARIANT {
namespace {

// The lines of a tensor along `dim`, as the walk over all other dimensions, and the stride within a line.
struct Line {
  int64_t size = 1;
  int64_t strides[2] = {1, 1};
};

Line SplitLines(const tt_tensor& first, const tt_tensor& second, int dim, Walk<2>* walk) {
  Line line;
  for (int d = 0; d < first.rank; ++d) {
    if (d == dim) {
      line = {first.sizes[d], {first.strides[d], second.strides[d]}};
    } else {
      walk->Add(first.sizes[d], first.strides[d], second.strides[d]);
    }
  }
  return line;
}

// What running sums are held in; unsigned integers because they wrap around.
template <typename T>
using ScanType = std::conditional_t<std::is_same_v<AccumulateType<T>, int64_t>, uint64_t, double>;

constexpr int64_t kColumns = 256;  // lines summed side by side

template <typename T>
void CumulativeSum(const tt_tensor& out, const tt_tensor& in, int dim) {
  using A = ScanType<T>;
  const T* x = static_cast<const T*>(in.data);
  T* y = static_cast<T*>(out.data);
  Walk<2> walk;
  const Line line = SplitLines(out, in, dim, &walk);
  if (line.size == 0 || walk.count() == 0) return;
  const Walk<2>::Inner inner = walk.PopInner();
  // Neighbouring lines side by side where they are neighbours in memory; a single one is the case of width 1.
  const bool beside = inner.strides[0] == 1 && inner.strides[1] == 1 && line.strides[0] != 1;
  const int64_t width = beside ? kColumns : 1;
  const int64_t strips = (inner.size + width - 1) / width;
  const int64_t grain = std::max<int64_t>(1, kGrain / (width * line.size));
  ParallelFor(walk.count() * strips, grain, [&](int64_t begin, int64_t end) {
    Walk<2> at = walk;
    at.Seek(begin / strips);
    A sums[kColumns];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % strips * width, n = std::min(width, inner.size - first);
      T* to = y + at.offset(0) + first * inner.strides[0];
      const T* from = x + at.offset(1) + first * inner.strides[1];
      std::fill(sums, sums + n, A(0));
      if (!beside) {
        A sum = 0;
        for (int64_t k = 0; k < line.size; ++k) {
          sum += static_cast<A>(from[k * line.strides[1]]);
          to[k * line.strides[0]] = static_cast<T>(sum);
        }
      } else {
        for (int64_t k = 0; k < line.size; ++k, to += line.strides[0], from += line.strides[1]) {
          for (int64_t j = 0; j < n; ++j) {
            sums[j] += static_cast<A>(from[j]);
            to[j] = static_cast<T>(sums[j]);
          }
        }
      }
      if ((i + 1) % strips == 0) at.Next();
    }
  });
}

int CumSum(tt_call* call) {
  const tt_tensor& out = call->outputs[0];
  return DispatchAll(call, out.dtype, [&](auto tag) {
    CumulativeSum<typename decltype(tag)::type>(out, call->inputs[0], WrapDim(call->attrs[0].i, out.rank));
    return static_cast<int>(TT_OK);
  });
}

struct Entry {
  uint64_t key;
  int64_t index;
};

template <typename U>
void MakeEntriesOf(const KeyRule& rule, bool descending, const U* x, int64_t stride, int64_t n, Entry* entries) {
  for (int64_t i = 0; i < n; ++i) entries[i] = {SortKey<U>(rule, descending, x[i * stride]), i};
}

void MakeEntries(const KeyRule& rule, bool descending, const char* x, int64_t stride, int64_t n, Entry* entries) {
  DispatchSize(rule.size, [&](auto tag) {
    using U = typename decltype(tag)::type;
    MakeEntriesOf(rule, descending, reinterpret_cast<const U*>(x), stride, n, entries);
  });
}

constexpr int64_t kInsertion = 16;  // sorted by insertion
constexpr int64_t kRadix = 256;     // sorted by digits from here on
constexpr int64_t kSmall = 64;      // sorted on the stack

void InsertionSort(Entry* a, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    const Entry entry = a[i];
    int64_t j = i;
    for (; j > 0 && a[j - 1].key > entry.key; --j) a[j] = a[j - 1];
    a[j] = entry;
  }
}

// Both sorts are stable, use `b` for space, and return which of the two holds the result.
Entry* MergeSort(Entry* a, Entry* b, int64_t n) {
  for (int64_t i = 0; i < n; i += kInsertion) InsertionSort(a + i, std::min(kInsertion, n - i));
  for (int64_t width = kInsertion; width < n; width *= 2, std::swap(a, b)) {
    for (int64_t i = 0; i < n; i += 2 * width) {
      int64_t left = i, right = std::min(n, i + width), out = i;
      const int64_t middle = right, end = std::min(n, i + 2 * width);
      while (left < middle && right < end) b[out++] = a[right].key < a[left].key ? a[right++] : a[left++];
      out = std::copy(a + left, a + middle, b + out) - b;
      std::copy(a + right, a + end, b + out);
    }
  }
  return a;
}

Entry* RadixSort(Entry* a, Entry* b, int64_t n, int64_t key_bytes) {
  int64_t counts[8][256];
  std::memset(counts, 0, sizeof(counts));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t d = 0; d < key_bytes; ++d) ++counts[d][a[i].key >> (8 * d) & 255];
  }
  for (int64_t d = 0; d < key_bytes; ++d) {
    int64_t* starts = counts[d];
    if (starts[a[0].key >> (8 * d) & 255] == n) continue;  // the same digit everywhere
    int64_t start = 0;
    for (int64_t v = 0; v < 256; ++v) start += std::exchange(starts[v], start);
    for (int64_t i = 0; i < n; ++i) b[starts[a[i].key >> (8 * d) & 255]++] = a[i];
    std::swap(a, b);
  }
  return a;
}

Entry* SortEntries(Entry* a, Entry* b, int64_t n, int64_t key_bytes) {
  return n < kRadix ? MergeSort(a, b, n) : RadixSort(a, b, n, key_bytes);
}

template <typename U>
void PickOf(const Entry* entries, int64_t n, const U* x, int64_t x_stride, U* values, int64_t* indices,
            int64_t stride) {
  for (int64_t i = 0; i < n; ++i) {
    values[i * stride] = x[entries[i].index * x_stride];
    indices[i * stride] = entries[i].index;
  }
}

// order(entries, scratch, n) puts the first `keep` of a line's n entries in order and returns where they are.
template <typename Order>
int SortLines(tt_call* call, int dim, bool descending, const Order& order) {
  const tt_tensor& in = call->inputs[0];
  const tt_tensor& values = call->outputs[0];
  const tt_tensor& indices = call->outputs[1];
  Walk<2> walk;
  const Line line = SplitLines(in, values, dim, &walk);
  const int64_t n = line.size, keep = values.rank > 0 ? values.sizes[dim] : 1, lines = walk.count();
  if (keep == 0 || lines == 0) return TT_OK;
  const int64_t grain = std::max<int64_t>(1, kGrain / (8 * n));
  Entry* space = nullptr;
  if (n > kSmall) {
    const int64_t threads = std::clamp<int64_t>(lines / grain, 1, std::max(1, omp_get_max_threads()));
    space = n < INT64_MAX / (2 * threads) ? Workspace<Entry>(call, threads * 2 * n) : nullptr;
    if (space == nullptr) return FailMemory(call);
  }
  const KeyRule rule = KeyRuleOf(in.dtype);
  std::atomic<int64_t> next{0};
  ParallelFor(lines, grain, [&](int64_t begin, int64_t end) {
    Entry small[2 * kSmall];
    Entry* entries = space == nullptr ? small : space + next.fetch_add(1) * 2 * n;
    Walk<2> at = walk;
    at.Seek(begin);
    for (int64_t i = begin; i < end; ++i, at.Next()) {
      const char* x = Bytes(in) + at.offset(0) * rule.size;
      MakeEntries(rule, descending, x, line.strides[0], n, entries);
      const Entry* sorted = order(entries, entries + n, n);
      DispatchSize(rule.size, [&](auto tag) {
        using U = typename decltype(tag)::type;
        PickOf(sorted, keep, reinterpret_cast<const U*>(x), line.strides[0],
               static_cast<U*>(values.data) + at.offset(1), static_cast<int64_t*>(indices.data) + at.offset(1),
               line.strides[1]);
      });
    }
  });
  return TT_OK;
}

int Sort(tt_call* call) {
  const int64_t key_bytes = ElementSize(call->inputs[0].dtype);
  return SortLines(call, WrapDim(call->attrs[0].i, call->inputs[0].rank), call->attrs[1].i != 0,
                   [=](Entry* a, Entry* b, int64_t n) { return SortEntries(a, b, n, key_bytes); });
}

int TopK(tt_call* call) {
  const int64_t k = call->attrs[0].i, key_bytes = ElementSize(call->inputs[0].dtype);
  const auto before = [](const Entry& x, const Entry& y) {
    return x.key < y.key || (x.key == y.key && x.index < y.index);
  };
  return SortLines(call, WrapDim(call->attrs[1].i, call->inputs[0].rank), call->attrs[2].i != 0,
                   [=](Entry* a, Entry* b, int64_t n) {
                     if (k * 4 > n || n <= kInsertion) return SortEntries(a, b, n, key_bytes);
                     if (k <= 64) {
                       std::partial_sort(a, a + k, a + n, before);
                       return a;
                     }
                     std::nth_element(a, a + (k - 1), a + n, before);
                     std::sort(a, a + k, before);
                     return a;
                   });
}

constexpr int64_t kBlock = 256;  // elements looked at together

// The coordinates of elements that are not zero. The number of them was counted before the output was made; where it
// no longer holds, the tensor was written to meanwhile.
int Nonzero(tt_call* call) {
  const tt_tensor& self = call->inputs[0];
  int64_t* to = static_cast<int64_t*>(call->outputs[0].data);
  int64_t left = call->outputs[0].sizes[0];
  const LoadFn load = TruthLoader(self.dtype);
  const int64_t size = ElementSize(self.dtype);
  const int last = self.rank - 1;
  const int64_t length = self.rank > 0 ? self.sizes[last] : 1, stride = self.rank > 0 ? self.strides[last] : 1;
  int64_t at[TT_MAX_RANK] = {};
  int64_t offset = 0;
  uint8_t truth[kBlock];
  for (int64_t line = 0; self.numel > 0 && line < self.numel / length; ++line) {
    for (int64_t begin = 0; begin < length; begin += kBlock) {
      const int64_t n = std::min(kBlock, length - begin);
      load(Bytes(self) + (offset + begin * stride) * size, n, stride, truth);
      for (int64_t j = 0; j < n; ++j) {
        uint64_t eight;
        if (j + 8 <= n && (std::memcpy(&eight, truth + j, 8), eight == 0)) {
          j += 7;
          continue;
        }
        if (truth[j] == 0) continue;
        if (left-- == 0) return Fail(call, TT_INVALID_ARGUMENT, "more elements are not zero than were counted");
        if (self.rank == 0) continue;
        at[last] = begin + j;
        to = std::copy(at, at + self.rank, to);
      }
    }
    for (int d = last - 1; d >= 0; --d) {
      offset += self.strides[d];
      if (++at[d] < self.sizes[d]) break;
      offset -= at[d] * self.strides[d];
      at[d] = 0;
    }
  }
  return left == 0 ? static_cast<int>(TT_OK)
                   : Fail(call, TT_INVALID_ARGUMENT, "fewer elements are not zero than were counted");
}

}  // namespace

void AppendScanKernels(KernelList* list) {
  list->push_back({"cumsum", TT_ALL_DTYPES, CumSum});
  list->push_back({"sort", TT_ALL_DTYPES, Sort});
  list->push_back({"_nonzero", TT_ALL_DTYPES, Nonzero});
  list->push_back({"topk", TT_INTEGER | TT_FLOATING, TopK});
}

}  // namespace telensor::cpu::TT_CPU_VARIANT
