// Loops over the elements of tensors of one shape. A functor is inlined into dense loops alone, which GCC vectorises;
// operands of other strides, and 16-bit floats, pass through small dense blocks.
#pragma once

#include <type_traits>

#include "kernels/cpu/blocks.h"
#include "kernels/cpu/kernel.h"

namespace telensor::cpu::TT_CPU_VARIANT {

inline constexpr int kMaxOperands = 5;
// n dense elements of every operand; the bits of `standing` mark operands of which there is one element for all.
using DenseFn = void (*)(const void* functor, void* const* at, unsigned standing, int64_t n);

// A loop body and the operands it takes.
struct Body {
  DenseFn dense;
  const void* functor;
  int count;
  unsigned reads, writes;  // bits of operands
  unsigned standing;       // bits of operands that `dense` takes as one element
  Format formats[kMaxOperands];
};

// A body over tensors of one shape: `Run` takes any range of the positions, in an order of the loop's own.
class ElementLoop {
 public:
  ElementLoop(const Body& body, const tt_tensor* const* tensors) : body_(body) {
    const tt_tensor& first = *tensors[0];
    for (int k = 0; k < body.count; ++k) {
      data_[k] = static_cast<char*>(tensors[k]->data);
      item_[k] = ItemSize(body.formats[k]);
      steps_[0][k] = item_[k];
    }
    // Dimension 0 is the fastest. Neighbours that all operands step over as one are merged.
    for (int d = first.rank - 1; d >= 0; --d) {
      if (first.sizes[d] == 1) continue;
      bool merges = rank_ > 0;
      for (int k = 0; k < body.count && merges; ++k) {
        merges = tensors[k]->strides[d] * item_[k] == steps_[rank_ - 1][k] * sizes_[rank_ - 1];
      }
      numel_ *= first.sizes[d];
      if (merges) {
        sizes_[rank_ - 1] *= first.sizes[d];
        continue;
      }
      sizes_[rank_] = first.sizes[d];
      for (int k = 0; k < body.count; ++k) steps_[rank_][k] = tensors[k]->strides[d] * item_[k];
      ++rank_;
    }
    if (rank_ == 0) sizes_[rank_++] = numel_;
    // Rows of a few elements cost more than strides do.
    if (sizes_[0] < 16) {
      const int longest = static_cast<int>(std::max_element(sizes_, sizes_ + rank_) - sizes_);
      std::swap(sizes_[0], sizes_[longest]);
      std::swap_ranges(steps_[0], steps_[0] + kMaxOperands, steps_[longest]);
    }
    for (int k = 0; k < body.count; ++k) {
      const unsigned bit = 1u << k;
      if (steps_[0][k] == 0 && (body.standing & bit) != 0 && body.formats[k] < Format::kHalf) {
        standing_ |= bit;
      } else if (steps_[0][k] != item_[k] || body.formats[k] >= Format::kHalf) {
        staged_ |= bit;
      }
    }
  }

  int64_t numel() const { return numel_; }

  void Run(int64_t begin, int64_t end) const {
    if (begin >= end) return;
    int64_t at[TT_MAX_RANK];
    char* p[kMaxOperands];
    int64_t rest = begin / sizes_[0], offset = begin % sizes_[0];
    for (int k = 0; k < body_.count; ++k) p[k] = data_[k];
    for (int d = 1; d < rank_; ++d) {
      at[d] = rest % sizes_[d];
      rest /= sizes_[d];
      for (int k = 0; k < body_.count; ++k) p[k] += at[d] * steps_[d][k];
    }
    for (int64_t left = end - begin;;) {
      const int64_t n = std::min(left, sizes_[0] - offset);
      char* row[kMaxOperands];
      for (int k = 0; k < body_.count; ++k) row[k] = p[k] + offset * steps_[0][k];
      if (staged_ == 0) {
        body_.dense(body_.functor, reinterpret_cast<void**>(row), standing_, n);
      } else {
        Staged(row, n);
      }
      if ((left -= n) == 0) return;
      offset = 0;
      for (int d = 1; d < rank_; ++d) {
        if (++at[d] < sizes_[d]) {
          for (int k = 0; k < body_.count; ++k) p[k] += steps_[d][k];
          break;
        }
        at[d] = 0;
        for (int k = 0; k < body_.count; ++k) p[k] -= (sizes_[d] - 1) * steps_[d][k];
      }
    }
  }

 private:
  void Staged(char* const* row, int64_t n) const {
    alignas(64) char blocks[kMaxOperands][kBlock * 8];
    void* at[kMaxOperands];
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t m = std::min(kBlock, n - i);
      for (int k = 0; k < body_.count; ++k) {
        char* memory = row[k] + i * steps_[0][k];
        at[k] = memory;
        if ((staged_ >> k & 1) == 0) continue;
        at[k] = blocks[k];
        // What stands still is the same in the next block.
        if ((body_.reads >> k & 1) != 0 && (i == 0 || steps_[0][k] != 0 || (body_.writes >> k & 1) != 0)) {
          GatherBlock(body_.formats[k], memory, steps_[0][k], blocks[k], m);
        }
      }
      body_.dense(body_.functor, at, standing_, m);
      for (int k = 0; k < body_.count; ++k) {
        if ((staged_ & body_.writes) >> k & 1) {
          ScatterBlock(body_.formats[k], blocks[k], row[k] + i * steps_[0][k], steps_[0][k], m);
        }
      }
    }
  }

  const Body body_;
  char* data_[kMaxOperands];
  int64_t item_[kMaxOperands];
  int rank_ = 0;
  int64_t numel_ = 1;
  int64_t sizes_[TT_MAX_RANK];
  int64_t steps_[TT_MAX_RANK][kMaxOperands];
  unsigned staged_ = 0, standing_ = 0;
};

// In threads of at least `grain` elements.
inline void RunLoop(const Body& body, const tt_tensor* const* tensors, int64_t grain) {
  const tt_tensor& first = *tensors[0];
  if (first.numel == 0) return;
  if (first.numel < 2 * grain && first.rank <= 1) {
    // Small and dense: nothing to prepare.
    void* at[kMaxOperands];
    unsigned standing = 0;
    bool simple = true;
    for (int k = 0; k < body.count; ++k) {
      at[k] = tensors[k]->data;
      const int64_t stride = first.numel == 1 ? 1 : tensors[k]->strides[0];
      if (stride == 0) standing |= 1u << k;
      simple = simple && stride <= 1 && stride >= 0 && body.formats[k] < Format::kHalf;
    }
    if (simple && (standing & ~body.standing) == 0) return body.dense(body.functor, at, standing, first.numel);
  }
  const ElementLoop loop(body, tensors);
  if (loop.numel() < 2 * grain) return loop.Run(0, loop.numel());
  ParallelFor(loop.numel(), grain, [&](int64_t begin, int64_t end) { loop.Run(begin, end); });
}

// Functors that are cheap only within a range: loops that look first take Fast.
template <typename Fn, typename T, typename = void>
struct HasFast : std::false_type {};
template <typename Fn, typename T>
struct HasFast<Fn, T, std::void_t<decltype(Fn::Fast(T()))>> : std::is_same<T, float> {};

template <typename Out, typename C, typename Fn>
void DenseUnary(const void* functor, void* const* at, unsigned, int64_t n) {
  const Fn fn = *static_cast<const Fn*>(functor);
  Out* out = static_cast<Out*>(at[0]);
  const C* in = static_cast<const C*>(at[1]);
  if constexpr (HasFast<Fn, C>::value) {
    for (int64_t end, begin = 0; begin < n; begin = end) {
      end = std::min(n, begin + kBlock);
      int beyond = 0;
      for (int64_t i = begin; i < end; ++i) beyond += !Fn::Within(in[i]);
      if (beyond == 0) {
#pragma GCC ivdep
        for (int64_t i = begin; i < end; ++i) out[i] = Fn::Fast(in[i]);
      } else {
        for (int64_t i = begin; i < end; ++i) out[i] = fn(in[i]);
      }
    }
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(fn(in[i]));
  }
}

template <typename Out, typename C, typename Fn>
void DenseBinary(const void* functor, void* const* at, unsigned standing, int64_t n) {
  const Fn fn = *static_cast<const Fn*>(functor);
  Out* out = static_cast<Out*>(at[0]);
  const C* a = static_cast<const C*>(at[1]);
  const C* b = static_cast<const C*>(at[2]);
  switch (standing) {
    case 0:
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(fn(a[i], b[i]));
      return;
    case 2: {
      const C x = *a;
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(fn(x, b[i]));
      return;
    }
    case 4: {
      const C y = *b;
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(fn(a[i], y));
      return;
    }
    default: std::fill_n(out, n, static_cast<Out>(fn(*a, *b)));
  }
}

// Fn sees 16-bit floats as float, everything else as it is. Work that costs more per element takes a smaller grain.
template <typename Out, typename T, typename Fn>
void UnaryLoop(tt_call* call, const Fn& fn, int64_t grain = kGrain) {
  using C = ComputeType<T>;
  const Body body = {DenseUnary<ComputeType<Out>, C, Fn>, &fn, 2, 2, 1, 0, {FormatOf<Out>(), FormatOf<T>()}};
  const tt_tensor* const tensors[] = {&call->outputs[0], &call->inputs[0]};
  RunLoop(body, tensors, grain);
}

template <typename Out, typename T, typename Fn>
void BinaryLoop(tt_call* call, const Fn& fn, int64_t grain = kGrain) {
  using C = ComputeType<T>;
  const Body body = {DenseBinary<ComputeType<Out>, C, Fn>,           &fn, 3, 6, 1, 6,
                     {FormatOf<Out>(), FormatOf<T>(), FormatOf<T>()}};
  const tt_tensor* const tensors[] = {&call->outputs[0], &call->inputs[0], &call->inputs[1]};
  RunLoop(body, tensors, grain);
}

}  // namespace telensor::cpu::TT_CPU_VARIANT
