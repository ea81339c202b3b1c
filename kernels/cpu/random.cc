// Rows of kind random. Element i draws block i, in row-major order.
#include <algorithm>
#include <utility>
#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "kernels/cpu/blocks.h"
#include "kernels/cpu/families.h"
#include "kernels/philox.h"

template <>
struct telensor::PhiloxDigits<telensor::Half> : std::integral_constant<int, 11> {};
template <>
struct telensor::PhiloxDigits<telensor::BFloat16> : std::integral_constant<int, 8> {};

namespace telensor::cpu::TT_CPU_VARIANT {
namespace {

constexpr int kBatch = 256;
constexpr int64_t kDrawGrain = kGrain / 8;

// Philox blocks first .. first + kBatch - 1, word by word: `Philox` on many counters at once.
struct Draws {
  uint32_t v[4][kBatch];

  Draws(uint64_t seed, uint64_t offset, uint64_t first) {
    int i = 0;
#ifdef __AVX2__
    for (; i < kBatch; i += 8) {
      FourBlocks(seed, offset, first + static_cast<uint64_t>(i), i);
      FourBlocks(seed, offset, first + static_cast<uint64_t>(i) + 4, i + 4);
    }
#endif
    for (; i < kBatch; ++i) {
      const PhiloxBlock block = Philox(seed, offset, first + static_cast<uint64_t>(i));
      for (int word = 0; word < 4; ++word) v[word][i] = block.v[word];
    }
  }
  PhiloxBlock operator[](int i) const { return {{v[0][i], v[1][i], v[2][i], v[3][i]}}; }

 private:
#ifdef __AVX2__
  // A word of four blocks lies in the lower halves of 64-bit lanes; the multiplication never looks at the upper ones.
  void FourBlocks(uint64_t seed, uint64_t offset, uint64_t index, int at) {
    const auto all = [](uint64_t x) { return _mm256_set1_epi64x(static_cast<long long>(x)); };
    __m256i c0 = _mm256_add_epi64(all(index), _mm256_setr_epi64x(0, 1, 2, 3)), c1 = _mm256_srli_epi64(c0, 32);
    __m256i c2 = all(offset), c3 = all(offset >> 32);
    const __m256i m0 = all(0xD2511F53), m1 = all(0xCD9E8D57);
    uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9, k1 += 0xBB67AE85) {
      const __m256i p0 = _mm256_mul_epu32(m0, c0), p1 = _mm256_mul_epu32(m1, c2);
      c0 = _mm256_xor_si256(_mm256_srli_epi64(p1, 32), _mm256_xor_si256(c1, all(k0)));
      c1 = p1;
      c2 = _mm256_xor_si256(_mm256_srli_epi64(p0, 32), _mm256_xor_si256(c3, all(k1)));
      c3 = p0;
    }
    const __m256i words[4] = {c0, c1, c2, c3}, lower = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
    for (int word = 0; word < 4; ++word) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(v[word] + at),
                       _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(words[word], lower)));
    }
  }
#endif
};

// Where element i of a tensor lies, in row-major order.
int64_t Place(const tt_tensor& t, int64_t i) {
  if (t.contiguous) return i;
  int64_t at = 0;
  for (int d = t.rank - 1; d >= 0; --d) {
    at += i % t.sizes[d] * t.strides[d];
    i /= t.sizes[d];
  }
  return at;
}

// fn(draws, first, n, values) computes elements first .. first + n - 1 as C; they are rounded to T where they belong.
template <typename T, typename C, typename Fn>
void Fill(tt_call* call, const tt_tensor& out, const Fn& fn) {
  T* data = static_cast<T*>(out.data);
  ParallelFor(out.numel, kDrawGrain, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += kBatch) {
      const Draws draws(call->seed, call->offset, static_cast<uint64_t>(first));
      const int n = static_cast<int>(std::min<int64_t>(kBatch, end - first));
      C values[kBatch];
      fn(draws, first, n, values);
      if (out.contiguous) {
        ScatterBlock(FormatOf<T>(), values, reinterpret_cast<char*>(data + first), sizeof(T), n);
      } else {
        for (int i = 0; i < n; ++i) data[Place(out, first + i)] = static_cast<T>(values[i]);
      }
    }
  });
}

// n elements from `first` on, in C.
template <typename T, typename C>
void Read(const tt_tensor& in, int64_t first, int n, C* values) {
  const T* data = static_cast<const T*>(in.data);
  if (in.contiguous) {
    GatherBlock(FormatOf<T>(), reinterpret_cast<const char*>(data + first), sizeof(T), values, n);
  } else {
    for (int i = 0; i < n; ++i) values[i] = static_cast<C>(data[Place(in, first + i)]);
  }
}

int Uniform(tt_call* call, double from, double to) {
  return DispatchFloating(call, call->outputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const C low = static_cast<C>(from), high = static_cast<C>(to), range = high - low;
    Fill<T, C>(call, call->outputs[0], [=](const Draws& draws, int64_t, int n, C* values) {
      for (int i = 0; i < n; ++i) {
        const C v = low + range * PhiloxUniformFor<T>(draws[i]);
        // The sum, or what is kept of it, may have been rounded up to the bound.
        values[i] = static_cast<C>(static_cast<T>(v)) < high ? v : low;
      }
    });
    return TT_OK;
  });
}
int Rand(tt_call* call) {
  return DispatchFloating(call, call->outputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    Fill<T, C>(call, call->outputs[0], [](const Draws& draws, int64_t, int n, C* values) {
      for (int i = 0; i < n; ++i) values[i] = PhiloxUniformFor<T>(draws[i]);
    });
    return TT_OK;
  });
}
int Normal(tt_call* call, double mean, double std) {
  return DispatchFloating(call, call->outputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    Fill<T, C>(call, call->outputs[0], [=](const Draws& draws, int64_t, int n, C* values) {
      for (int i = 0; i < n; ++i) values[i] = static_cast<C>(mean + std * PhiloxNormal(draws[i]));
    });
    return TT_OK;
  });
}

int Randn(tt_call* call) { return Normal(call, 0, 1); }
int UniformInPlace(tt_call* call) { return Uniform(call, call->attrs[0].f, call->attrs[1].f); }
int NormalInPlace(tt_call* call) {
  if (!(call->attrs[1].f >= 0)) {
    return Fail(call, TT_INVALID_ARGUMENT, "normal expects std >= 0.0, but found std %g", call->attrs[1].f);
  }
  return Normal(call, call->attrs[0].f, call->attrs[1].f);
}

int RandInt(tt_call* call) {
  const uint64_t low = static_cast<uint64_t>(call->attrs[0].i);
  const uint64_t range = static_cast<uint64_t>(call->attrs[1].i) - low;
  return DispatchNumber(call, call->outputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    Fill<T, C>(call, call->outputs[0], [=](const Draws& draws, int64_t, int n, C* values) {
      for (int i = 0; i < n; ++i) {
        // The high half of a product spreads 64 bits over the range without a visible bias.
        const uint64_t pick =
            static_cast<uint64_t>((static_cast<unsigned __int128>(PhiloxBits(draws[i])) * range) >> 64);
        values[i] = static_cast<C>(static_cast<int64_t>(low + pick));
      }
    });
    return TT_OK;
  });
}

struct Card {
  uint64_t key;
  int64_t index;
};

// Sorts by key, equal keys in order of index. The keys' upper 33 bits, in three passes, leave next to nothing to do.
// Returns which of the two arrays holds the result.
Card* SortCards(Card* cards, Card* spare, int64_t n) {
  constexpr int kPasses = 3, kDigit = 11, kLowest = 64 - kPasses * kDigit;
  if (n > 64) {
    int64_t counts[kPasses][1 << kDigit] = {};
    const auto digit = [](const Card& card, int pass) {
      return card.key >> (kLowest + pass * kDigit) & ((1 << kDigit) - 1);
    };
    for (int64_t i = 0; i < n; ++i) {
      for (int pass = 0; pass < kPasses; ++pass) ++counts[pass][digit(cards[i], pass)];
    }
    for (int pass = 0; pass < kPasses; ++pass) {
      int64_t sum = 0;
      for (int64_t& count : counts[pass]) sum += std::exchange(count, sum);
      for (int64_t i = 0; i < n; ++i) spare[counts[pass][digit(cards[i], pass)]++] = cards[i];
      std::swap(cards, spare);
    }
  }
  for (int64_t i = 1; i < n; ++i) {
    const Card card = cards[i];
    int64_t at = i;
    for (; at > 0 && card.key < cards[at - 1].key; --at) cards[at] = cards[at - 1];
    cards[at] = card;
  }
  return cards;
}

int RandPerm(tt_call* call) {
  // Indices sorted by random keys: the same on every device.
  const tt_tensor& out = call->outputs[0];
  const int64_t n = out.numel;
  if (n == 0) return TT_OK;
  Card* cards = Workspace<Card>(call, 2 * n);
  if (cards == nullptr) return TT_OUT_OF_MEMORY;
  ParallelFor(n, kDrawGrain, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += kBatch) {
      const Draws draws(call->seed, call->offset, static_cast<uint64_t>(first));
      const int count = static_cast<int>(std::min<int64_t>(kBatch, end - first));
      for (int i = 0; i < count; ++i) cards[first + i] = {PhiloxBits(draws[i]), first + i};
    }
  });
  const Card* sorted = SortCards(cards, cards + n, n);
  return DispatchNumber(call, out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* data = static_cast<T*>(out.data);
    for (int64_t i = 0; i < n; ++i) data[i] = static_cast<T>(static_cast<ComputeType<T>>(sorted[i].index));
    return TT_OK;
  });
}

int Bernoulli(tt_call* call) {
  const tt_tensor& in = call->inputs[0];
  return DispatchFloating(call, in.dtype, [&](auto tag) -> int {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    for (int64_t first = 0; first < in.numel; first += kBatch) {
      const int n = static_cast<int>(std::min<int64_t>(kBatch, in.numel - first));
      C p[kBatch];
      Read<T>(in, first, n, p);
      int outside = 0;
      for (int i = 0; i < n; ++i) outside += !((p[i] >= 0) & (p[i] <= 1));
      if (outside > 0) {
        return Fail(call, TT_INVALID_ARGUMENT, "Expected p_in >= 0 && p_in <= 1 to be true, but got false.");
      }
    }
    Fill<T, C>(call, call->outputs[0], [&](const Draws& draws, int64_t first, int n, C* values) {
      C p[kBatch];
      Read<T>(in, first, n, p);
      for (int i = 0; i < n; ++i)
        values[i] = PhiloxUniform(draws[i], double()) < static_cast<double>(p[i]) ? C(1) : C(0);
    });
    return TT_OK;
  });
}

int Dropout(tt_call* call) {
  const tt_tensor &in = call->inputs[0], &mask = call->outputs[1];
  const double p = call->attrs[0].f;
  return DispatchFloating(call, in.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const C scale = p < 1 ? static_cast<C>(1.0 / (1.0 - p)) : C(0);
    const float limit = static_cast<float>(p);
    Fill<T, C>(call, call->outputs[0], [&](const Draws& draws, int64_t first, int n, C* values) {
      C x[kBatch], factor[kBatch];
      Read<T>(in, first, n, x);
      for (int i = 0; i < n; ++i) {
        const bool keep = PhiloxUniform(draws[i], float()) >= limit;
        const C kept = x[i] * scale;
        factor[i] = keep ? scale : C(0);
        values[i] = keep ? kept : C(0);
      }
      ScatterBlock(FormatOf<T>(), factor, static_cast<char*>(mask.data) + first * static_cast<int64_t>(sizeof(T)),
                   sizeof(T), n);
    });
    return TT_OK;
  });
}

}  // namespace

void AppendRandomKernels(KernelList* list) {
  list->push_back({"rand", TT_FLOATING, Rand});
  list->push_back({"randn", TT_FLOATING, Randn});
  list->push_back({"randint", TT_FLOATING | TT_INTEGER, RandInt});
  list->push_back({"randperm", TT_FLOATING | TT_INTEGER, RandPerm});
  list->push_back({"uniform_", TT_FLOATING, UniformInPlace});
  list->push_back({"normal_", TT_FLOATING, NormalInPlace});
  list->push_back({"bernoulli", TT_FLOATING, Bernoulli});
  list->push_back({"_dropout", TT_FLOATING, Dropout});
}

}  // namespace telensor::cpu::TT_CPU_VARIANT
