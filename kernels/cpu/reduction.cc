// Reductions. A plan splits the dimensions into the kept ones, in the order of the output, and the reduced ones, in
// the order of memory. Two loops then serve every op: along runs, where the reduced elements are neighbours, and
// down columns, where those of many outputs are. Both work on dense runs of a few compute types.
//
// How the work is cut depends on the shape alone, so a result does not depend on the number of threads.
#include "kernels/cpu/reduction.h"

#include <cmath>
#include <limits>

#include "kernels/cpu/families.h"

namespace telensor::cpu::TT_CPU_VARIANT {
namespace {

#ifdef __AVX__
constexpr int64_t kVectorBytes = 32;
#else
constexpr int64_t kVectorBytes = 16;
#endif

constexpr int64_t kColumns = 1024;  // outputs worked on together, elements of a buffer; wide, so that rows stream
constexpr int64_t kNarrow = 512;    // what several narrow rows taken as one may come to
constexpr int64_t kRun = 1024;      // elements folded in the compute type before they go to the wider total
constexpr int64_t kFlush = 32;      // the same for rows of columns: sums of equal addends drift one way
constexpr int64_t kPiece = 65536;   // what a reduction to few outputs is cut into
constexpr int64_t kMaxPieces = 64;

struct Plan {
  int kept_rank = 0;
  int reduced_rank = 0;
  int64_t outputs = 1;
  int64_t count = 1;  // elements reduced to each output
  bool columns = false;
  Axis kept[TT_MAX_RANK];
  Axis reduced[TT_MAX_RANK];

  Axis row() const { return reduced_rank > 0 ? reduced[reduced_rank - 1] : Axis{1, 1}; }
  Axis column() const { return kept_rank > 0 ? kept[kept_rank - 1] : Axis{1, 1}; }
};

void AddAxis(Axis* axes, int* rank, Axis axis) {
  if (*rank > 0 && axes[*rank - 1].stride == axis.stride * axis.size) {
    axes[*rank - 1] = {axes[*rank - 1].size * axis.size, axis.stride};
  } else {
    axes[(*rank)++] = axis;
  }
}

// `in_order` keeps the reduced dimensions as they are numbered, for ops that count positions.
void MakePlan(const tt_tensor& in, uint32_t mask, bool in_order, Plan* plan) {
  if (in.contiguous && in.rank > 0 && mask == (1u << in.rank) - 1) {
    plan->count = in.numel;
    plan->reduced[0] = {in.numel, 1};
    plan->reduced_rank = 1;
    return;
  }
  Axis reduced[TT_MAX_RANK];
  int rank = 0;
  for (int d = 0; d < in.rank; ++d) {
    const Axis axis = {in.sizes[d], in.strides[d]};
    const bool gone = (mask >> d & 1) != 0;
    (gone ? plan->count : plan->outputs) *= axis.size;
    if (axis.size == 1) continue;
    if (!gone) {
      AddAxis(plan->kept, &plan->kept_rank, axis);
      continue;
    }
    // The widest stride outermost, and before it what is repeated in memory.
    int at = rank++;
    for (; !in_order && at > 0; --at) {
      const int64_t before = std::abs(reduced[at - 1].stride);
      if (axis.stride != 0 && (before == 0 || before >= std::abs(axis.stride))) break;
      reduced[at] = reduced[at - 1];
    }
    reduced[at] = axis;
  }
  for (int i = 0; i < rank; ++i) AddAxis(plan->reduced, &plan->reduced_rank, reduced[i]);
  if (plan->reduced_rank == 0) {
    plan->columns = true;
  } else if (plan->kept_rank > 0) {
    const int64_t across = std::abs(plan->column().stride), down = std::abs(plan->row().stride);
    plan->columns = across != 0 && (down == 0 || across < down);
  }
}

Walk<1> WalkAxes(const Axis* axes, int rank) {
  Walk<1> walk;
  for (int d = 0; d < rank; ++d) walk.Add(axes[d].size, axes[d].stride);
  return walk;
}

// Where elements come from: `same` where the tensor already holds the compute type.
struct Source {
  LoadFn load;
  bool same;
};

Source SourceOf(int dtype, TypeTag<float>) {
  switch (dtype) {
    case TT_FLOAT16: return {LoadAs<Half, float>, false};
    case TT_BFLOAT16: return {LoadAs<BFloat16, float>, false};
    default: return {LoadAs<float, float>, true};
  }
}

Source SourceOf(int dtype, TypeTag<double>) {
  switch (dtype) {
    case TT_FLOAT16: return {LoadAs<Half, double>, false};
    case TT_BFLOAT16: return {LoadAs<BFloat16, double>, false};
    case TT_FLOAT32: return {LoadAs<float, double>, false};
    default: return {LoadAs<double, double>, true};
  }
}

Source SourceOf(int dtype, TypeTag<int64_t>) {
  switch (dtype) {
    case TT_INT8: return {LoadAs<int8_t, int64_t>, false};
    case TT_INT16: return {LoadAs<int16_t, int64_t>, false};
    case TT_INT32: return {LoadAs<int32_t, int64_t>, false};
    case TT_INT64: return {LoadAs<int64_t, int64_t>, true};
    default: return {LoadAs<uint8_t, int64_t>, false};
  }
}

// Sums and products wrap around, so they are taken without a sign; the bits are the same.
Source SourceOf(int dtype, TypeTag<uint64_t>) { return SourceOf(dtype, TypeTag<int64_t>()); }
Source SourceOf(int dtype, TypeTag<uint8_t>) { return {TruthLoader(dtype), false}; }

// Steps take one element (or a vector of them) into an accumulator; joins put two accumulators together. Written to
// be the same text for a number and for a vector, and by reference: passing wide vectors by value has no fixed ABI.
struct Add {
  template <typename V> static void Step(V& a, const V& x) { a += x; }
  template <typename V> static void Join(V& a, const V& b) { a += b; }
};
struct Multiply {
  template <typename V> static void Step(V& a, const V& x) { a *= x; }
  template <typename V> static void Join(V& a, const V& b) { a *= b; }
};
struct Maximum {
  template <typename V> static void Step(V& a, const V& x) { a = ((x > a) | (x != x)) ? x : a; }
  template <typename V> static void Join(V& a, const V& b) { Step(a, b); }
};
struct Minimum {
  template <typename V> static void Step(V& a, const V& x) { a = ((x < a) | (x != x)) ? x : a; }
  template <typename V> static void Join(V& a, const V& b) { Step(a, b); }
};
struct Or {
  template <typename V> static void Step(V& a, const V& x) { a |= x; }
  template <typename V> static void Join(V& a, const V& b) { a |= b; }
};
struct And {
  template <typename V> static void Step(V& a, const V& x) { a &= x; }
  template <typename V> static void Join(V& a, const V& b) { a &= b; }
};
struct AddSquare : Add {
  template <typename V> static void Step(V& a, const V& x) { a += x * x; }
};
struct AddMagnitude : Add {
  template <typename V> static void Step(V& a, const V& x) { a += x < V{} ? -x : x; }
};
struct AddNonzero : Add {
  template <typename V> static void Step(V& a, const V& x) { a += x != V{} ? V{} + 1.0 : V{}; }
};
struct MaximumMagnitude : Maximum {
  template <typename V> static void Step(V& a, const V& x) { Maximum::Step(a, x < V{} ? V(-x) : x); }
};
struct MinimumMagnitude : Minimum {
  template <typename V> static void Step(V& a, const V& x) { Minimum::Step(a, x <= V{} ? V(V{} - x) : x); }
};

template <typename S, typename C>
C FoldRun(const C* x, int64_t n, C acc) {
  typedef C Vec __attribute__((vector_size(kVectorBytes)));
  constexpr int64_t kWidth = kVectorBytes / static_cast<int64_t>(sizeof(C));
  int64_t i = 0;
  if (n >= kWidth) {
    Vec lanes[4], v;
    for (int64_t j = 0; j < kWidth; ++j) v[j] = acc;
    for (int k = 0; k < 4; ++k) lanes[k] = v;
    for (; i + 4 * kWidth <= n; i += 4 * kWidth) {
      std::memcpy(&v, x + i, sizeof(v));
      S::Step(lanes[0], v);
      std::memcpy(&v, x + i + kWidth, sizeof(v));
      S::Step(lanes[1], v);
      std::memcpy(&v, x + i + 2 * kWidth, sizeof(v));
      S::Step(lanes[2], v);
      std::memcpy(&v, x + i + 3 * kWidth, sizeof(v));
      S::Step(lanes[3], v);
    }
    for (; i + kWidth <= n; i += kWidth) {
      std::memcpy(&v, x + i, sizeof(v));
      S::Step(lanes[0], v);
    }
    S::Join(lanes[0], lanes[1]);
    S::Join(lanes[2], lanes[3]);
    S::Join(lanes[0], lanes[2]);
    C ends[kWidth];
    std::memcpy(ends, &lanes[0], sizeof(ends));
    for (int64_t width = kWidth / 2; width > 0; width /= 2) {
      for (int64_t j = 0; j < width; ++j) S::Join(ends[j], ends[j + width]);
    }
    acc = ends[0];
  }
  for (; i < n; ++i) S::Step(acc, x[i]);
  return acc;
}

enum class Last { kAsIs, kDivide, kSquareRoot, kRoot, kRootOfMean };

// A reduction that folds elements one by one: compute type, wider total, identity, and what is done to the total.
// `output` is the number of the output worked on, `at` the position of the first element among the reduced ones.
template <typename S, typename C_, typename Total_>
struct Fold {
  using C = C_;
  using Total = Total_;
  using Result = std::conditional_t<std::is_floating_point_v<C>, double, int64_t>;
  using Parts = C[kColumns];
  static constexpr bool kAlike = true;  // neither depends on the output nor on the position

  C identity;
  Last last = Last::kAsIs;
  double operand = 1;
  Result* sink = nullptr;  // where results go instead of the output, not rounded

  Total Start() const { return static_cast<Total>(identity); }
  void Run(Total& total, const C* x, int64_t n, int64_t, int64_t) const {
    S::Join(total, static_cast<Total>(FoldRun<S>(x, n, identity)));
  }
  void Clear(Parts& parts, int64_t n) const { std::fill(parts, parts + n, identity); }
  void Row(Parts& parts, const C* __restrict x, int64_t n, int64_t, int64_t) const {
    C* __restrict y = parts;
    for (int64_t j = 0; j < n; ++j) S::Step(y[j], x[j]);
  }
  static void Flush(Total* totals, const Parts& parts, int64_t first, int64_t n) {
    for (int64_t j = 0; j < n; ++j) S::Join(totals[j], static_cast<Total>(parts[first + j]));
  }
  static void Join(Total& a, const Total& b) { S::Join(a, b); }
  Result Finish(Total total) const {
    if constexpr (std::is_floating_point_v<C>) {
      switch (last) {
        case Last::kDivide: return total / operand;
        case Last::kSquareRoot: return std::sqrt(total);
        case Last::kRootOfMean: return std::sqrt(total / operand);
        case Last::kRoot: return std::pow(total, 1 / operand);
        default: break;
      }
    }
    return static_cast<Result>(total);
  }
  void Emit(const tt_tensor* outputs, int64_t begin, const Total* totals, int64_t n) const {
    Result results[kColumns];
    Result* to = sink != nullptr ? sink + begin : results;
    for (int64_t i = 0; i < n; ++i) to[i] = Finish(totals[i]);
    if (sink == nullptr) Store(outputs[0], begin, results, n);
  }
};

// Sum of |x| ** p.
struct AddPower : Fold<Add, double, double> {
  void Run(double& total, const double* x, int64_t n, int64_t, int64_t) const {
    for (int64_t i = 0; i < n; ++i) total += std::pow(std::abs(x[i]), operand);
  }
  void Row(Parts& parts, const double* x, int64_t n, int64_t, int64_t) const {
    for (int64_t j = 0; j < n; ++j) parts[j] += std::pow(std::abs(x[j]), operand);
  }
};

// Sum of squared distances from each output's mean.
struct AddDeviation : Fold<Add, double, double> {
  static constexpr bool kAlike = false;
  const double* mean;

  void Run(double& total, const double* x, int64_t n, int64_t output, int64_t) const {
    double lanes[4] = {0, 0, 0, 0};
    const double m = mean[output];
    const int64_t whole = n / 4 * 4;
    for (int64_t i = 0; i < whole; i += 4) {
      for (int k = 0; k < 4; ++k) lanes[k] += (x[i + k] - m) * (x[i + k] - m);
    }
    double rest = 0;
    for (int64_t i = whole; i < n; ++i) rest += (x[i] - m) * (x[i] - m);
    total += ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + rest;
  }
  void Row(Parts& parts, const double* __restrict x, int64_t n, int64_t output, int64_t) const {
    const double* m = mean + output;
    double* __restrict y = parts;
    for (int64_t j = 0; j < n; ++j) y[j] += (x[j] - m[j]) * (x[j] - m[j]);
  }
};

// Values and positions of extrema. A NaN is beyond everything; the first of equals wins.
template <typename C_, bool kMax>
struct Locate {
  using C = C_;
  using Step = std::conditional_t<kMax, Maximum, Minimum>;
  using Result = std::conditional_t<std::is_floating_point_v<C>, double, int64_t>;
  struct Total {
    C value;
    int64_t index;  // -1 where there is none yet
  };
  struct Parts {
    C values[kColumns];
    int64_t indices[kColumns];
  };
  static constexpr bool kAlike = false;

  static bool Better(C x, C best) { return (kMax ? x > best : x < best) | ((x != x) & (best == best)); }
  Total Start() const { return {C(), -1}; }
  void Run(Total& total, const C* x, int64_t n, int64_t, int64_t at) const {
    const C found = FoldRun<Step>(x, n, x[0]);
    if (total.index >= 0 && !Better(found, total.value)) return;
    int64_t j = 0;
    while (found == found ? x[j] != found : x[j] == x[j]) ++j;
    total = {found, at + j};
  }
  void Clear(Parts& parts, int64_t n) const { std::fill(parts.indices, parts.indices + n, -1); }
  void Row(Parts& parts, const C* __restrict x, int64_t n, int64_t, int64_t at) const {
    C* __restrict values = parts.values;
    int64_t* __restrict indices = parts.indices;
    if (indices[0] < 0) {
      std::copy(x, x + n, values);
      std::fill(indices, indices + n, at);
      return;
    }
    for (int64_t j = 0; j < n; ++j) {
      const bool better = Better(x[j], values[j]);
      values[j] = better ? x[j] : values[j];
      indices[j] = better ? at : indices[j];
    }
  }
  static void Flush(Total* totals, const Parts& parts, int64_t first, int64_t n) {
    for (int64_t j = 0; j < n; ++j) Join(totals[j], {parts.values[first + j], parts.indices[first + j]});
  }
  // b comes after a.
  static void Join(Total& a, const Total& b) {
    if (b.index >= 0 && (a.index < 0 || Better(b.value, a.value))) a = b;
  }
  void Emit(const tt_tensor* outputs, int64_t begin, const Total* totals, int64_t n) const {
    Result results[kColumns];
    int64_t* indices = static_cast<int64_t*>(outputs[has_values ? 1 : 0].data) + begin;
    for (int64_t i = 0; i < n; ++i) {
      results[i] = static_cast<Result>(totals[i].value);
      indices[i] = totals[i].index;
    }
    if (has_values) Store(outputs[0], begin, results, n);
  }

  bool has_values;
};

template <typename Op>
class Reducer {
 public:
  using C = typename Op::C;
  using Total = typename Op::Total;

  Reducer(const Plan& plan, const Op& op, const tt_tensor& in)
      : plan_(plan), op_(op), data_(Bytes(in)), size_(ElementSize(in.dtype)),
        source_(SourceOf(in.dtype, TypeTag<C>())) {}

  int Run(tt_call* call) const {
    const int64_t outputs = plan_.outputs, count = plan_.count;
    if (outputs == 0) return TT_OK;
    const bool few = outputs < (plan_.columns ? 2 * kColumns : 32);
    if (!few || outputs * count < 2 * kPiece) {
      ParallelFor(outputs, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, count)), [&](int64_t begin, int64_t end) {
        Total totals[kColumns];
        for (int64_t o = begin; o < end; o += kColumns) {
          const int64_t n = std::min(kColumns, end - o);
          Range(o, o + n, 0, count, totals);
          op_.Emit(call->outputs, o, totals, n);
        }
      });
      return TT_OK;
    }
    const int64_t pieces = std::min({kMaxPieces, outputs * count / kPiece, count});
    auto* partial = Workspace<Total>(call, pieces * outputs);
    if (partial == nullptr) return TT_OUT_OF_MEMORY;
    const auto start = [=](int64_t p) { return count / pieces * p + std::min(p, count % pieces); };
    ParallelFor(pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) Range(0, outputs, start(p), start(p + 1), partial + p * outputs);
    });
    for (int64_t p = 1; p < pieces; ++p) {
      for (int64_t o = 0; o < outputs; ++o) Op::Join(partial[o], partial[p * outputs + o]);
    }
    for (int64_t o = 0; o < outputs; o += kColumns) {
      op_.Emit(call->outputs, o, partial + o, std::min(kColumns, outputs - o));
    }
    return TT_OK;
  }

 private:
  // Totals of the outputs [begin, end) over the reduced positions [from, to).
  void Range(int64_t begin, int64_t end, int64_t from, int64_t to, Total* totals) const {
    std::fill(totals, totals + (end - begin), op_.Start());
    if (from == to) return;
    if (plan_.columns) {
      Columns(begin, end, from, to, totals);
    } else {
      Runs(begin, end, from, to, totals);
    }
  }

  void Runs(int64_t begin, int64_t end, int64_t from, int64_t to, Total* totals) const {
    const Axis inner = plan_.row();
    // Runs too short to be worth a vector loop of their own are gathered first.
    const bool direct = source_.same && inner.stride == 1 && (inner.size >= 32 || plan_.reduced_rank == 1);
    Walk<1> kept = WalkAxes(plan_.kept, plan_.kept_rank);
    Walk<1> outer = WalkAxes(plan_.reduced, plan_.reduced_rank - 1);
    kept.Seek(begin);
    C buffer[kColumns];
    for (int64_t o = begin; o < end; ++o, kept.Next()) {
      Total& total = totals[o - begin];
      int64_t at = from, filled = 0;
      outer.Seek(from == 0 ? 0 : from / inner.size);
      for (int64_t skip = from == 0 ? 0 : from % inner.size; at < to; skip = 0, outer.Next()) {
        int64_t n = std::min(inner.size - skip, to - at);
        const char* x = data_ + (kept.offset(0) + outer.offset(0) + skip * inner.stride) * size_;
        if (direct) {
          for (int64_t i = 0; i < n; i += kRun) {
            op_.Run(total, reinterpret_cast<const C*>(x) + i, std::min(kRun, n - i), o, at + i);
          }
          at += n;
          continue;
        }
        while (n > 0) {
          const int64_t take = std::min(n, kColumns - filled);
          source_.load(x, take, inner.stride, buffer + filled);
          x += take * inner.stride * size_;
          n -= take;
          at += take;
          filled += take;
          if (filled == kColumns) {
            op_.Run(total, buffer, filled, o, at - filled);
            filled = 0;
          }
        }
      }
      if (filled > 0) op_.Run(total, buffer, filled, o, at - filled);
    }
  }

  void Columns(int64_t begin, int64_t end, int64_t from, int64_t to, Total* totals) const {
    const Axis column = plan_.column(), row = plan_.row();
    const bool direct = source_.same && column.stride == 1;
    Walk<1> kept = WalkAxes(plan_.kept, plan_.kept_rank - 1);
    Walk<1> outer = WalkAxes(plan_.reduced, plan_.reduced_rank - 1);
    kept.Seek(begin / column.size);
    typename Op::Parts parts;
    C buffer[kColumns];
    for (int64_t o = begin; o < end;) {
      const int64_t first = o % column.size;
      const int64_t n = std::min({column.size - first, end - o, kColumns});
      // Narrow rows that follow each other in memory are taken several at once.
      const bool narrow = Op::kAlike && direct && n == column.size && row.stride == n && n <= kNarrow / 2;
      const int64_t together = narrow ? std::min({kNarrow / n, row.size, to - from}) : 1;
      const auto flush = [&] {
        for (int64_t g = 0; g < together; ++g) Op::Flush(totals + (o - begin), parts, g * n, n);
      };
      op_.Clear(parts, n * together);
      outer.Seek(from / row.size);
      int64_t in_row = from % row.size, rows = 0;
      for (int64_t at = from; at < to;) {
        const int64_t m = std::min({together, row.size - in_row, to - at});
        const int64_t offset = kept.offset(0) + first * column.stride + outer.offset(0) + in_row * row.stride;
        const char* x = data_ + offset * size_;
        if (!direct) source_.load(x, n, column.stride, buffer);
        op_.Row(parts, direct ? reinterpret_cast<const C*>(x) : buffer, n * m, o, at);
        at += m;
        in_row += m;
        if (in_row == row.size) {
          in_row = 0;
          outer.Next();
        }
        if (++rows == kFlush) {
          flush();
          op_.Clear(parts, n * together);
          rows = 0;
        }
      }
      flush();
      o += n;
      if (first + n == column.size) kept.Next();
    }
  }

  const Plan& plan_;
  const Op op_;
  const char* const data_;
  const int64_t size_;
  const Source source_;
};

template <typename Op>
int ReduceBy(tt_call* call, const tt_value& dim, Op op) {
  const tt_tensor& in = call->inputs[0];
  Plan plan;
  MakePlan(in, DimMask(dim, in.rank), false, &plan);
  if (op.last == Last::kDivide) op.operand = static_cast<double>(plan.count);
  return Reducer<Op>(plan, op, in).Run(call);
}

// fn(tag) for the compute type of values that are only compared or added.
template <typename Fn>
int DispatchCompute(int dtype, const Fn& fn) {
  if (dtype == TT_FLOAT64) return fn(TypeTag<double>());
  return dtype >= TT_FLOAT16 ? fn(TypeTag<float>()) : fn(TypeTag<int64_t>());
}

// Integers wrap around, so they are taken without a sign.
template <bool kMean>
int AddUp(tt_call* call) {
  return DispatchCompute(call->inputs[0].dtype, [&](auto tag) {
    using C = typename decltype(tag)::type;
    using Sum = std::conditional_t<std::is_floating_point_v<C>, Fold<Add, C, double>, Fold<Add, uint64_t, uint64_t>>;
    return ReduceBy(call, call->attrs[0], Sum{0, kMean ? Last::kDivide : Last::kAsIs});
  });
}

// In double: what a float product passes through on the way may leave the range of float.
int Product(tt_call* call) {
  if (call->inputs[0].dtype >= TT_FLOAT16) return ReduceBy(call, call->attrs[0], Fold<Multiply, double, double>{1});
  return ReduceBy(call, call->attrs[0], Fold<Multiply, uint64_t, uint64_t>{1});
}

template <bool kMax>
int Extremum(tt_call* call) {
  return DispatchCompute(call->inputs[0].dtype, [&](auto tag) {
    using C = typename decltype(tag)::type;
    using Limits = std::numeric_limits<C>;
    const C low = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    const C high = Limits::has_infinity ? Limits::infinity() : Limits::max();
    return ReduceBy(call, call->attrs[0], Fold<std::conditional_t<kMax, Maximum, Minimum>, C, C>{kMax ? low : high});
  });
}

int Any(tt_call* call) { return ReduceBy(call, call->attrs[0], Fold<Or, uint8_t, uint8_t>{0}); }
int All(tt_call* call) { return ReduceBy(call, call->attrs[0], Fold<And, uint8_t, uint8_t>{1}); }

int Norm(tt_call* call) {
  const double p = call->attrs[0].f;
  const tt_value& dim = call->attrs[1];
  if (p == 2) return ReduceBy(call, dim, Fold<AddSquare, double, double>{0, Last::kSquareRoot});
  if (p == 1) return ReduceBy(call, dim, Fold<AddMagnitude, double, double>{0});
  if (p == 0) return ReduceBy(call, dim, Fold<AddNonzero, double, double>{0});
  if (p == HUGE_VAL) return ReduceBy(call, dim, Fold<MaximumMagnitude, double, double>{0});
  if (p == -HUGE_VAL) return ReduceBy(call, dim, Fold<MinimumMagnitude, double, double>{HUGE_VAL});
  return ReduceBy(call, dim, AddPower{{0, Last::kRoot, p}});
}

// Two passes: the means, then the distances from them.
template <Last kLast>
int Variance(tt_call* call) {
  Plan plan;
  MakePlan(call->inputs[0], DimMask(call->attrs[0], call->inputs[0].rank), false, &plan);
  double small[64], *mean = small;
  if (plan.outputs > 64) mean = Workspace<double>(call, plan.outputs);
  if (mean == nullptr) return TT_OUT_OF_MEMORY;
  const double n = static_cast<double>(plan.count), divisor = std::max(0.0, n - static_cast<double>(call->attrs[1].i));
  const int code = Reducer(plan, Fold<Add, double, double>{0, Last::kDivide, n, mean}, call->inputs[0]).Run(call);
  if (code != TT_OK) return code;
  return Reducer(plan, AddDeviation{{0, kLast, divisor}, mean}, call->inputs[0]).Run(call);
}

// Without values (argmax, argmin) the dimension may be None: all of them, flattened.
template <bool kMax, bool kValues>
int ArgExtremum(tt_call* call) {
  const tt_tensor& in = call->inputs[0];
  Plan plan;
  MakePlan(in, DimMask(call->attrs[0], in.rank), true, &plan);
  if (plan.outputs != 0 && plan.count == 0) {
    return Fail(call, TT_INVALID_ARGUMENT, "cannot find an extremum along a dimension of size 0");
  }
  return DispatchCompute(in.dtype, [&](auto tag) {
    return Reducer(plan, Locate<typename decltype(tag)::type, kMax>{kValues}, in).Run(call);
  });
}

}  // namespace

void AppendReductionKernels(KernelList* list) {
  list->push_back({"sum", TT_ALL_DTYPES, AddUp<false>});
  list->push_back({"mean", TT_FLOATING, AddUp<true>});
  list->push_back({"_prod", TT_ALL_DTYPES, Product});
  list->push_back({"amax", TT_ALL_DTYPES, Extremum<true>});
  list->push_back({"amin", TT_ALL_DTYPES, Extremum<false>});
  list->push_back({"max.dim", TT_ALL_DTYPES, ArgExtremum<true, true>});
  list->push_back({"min.dim", TT_ALL_DTYPES, ArgExtremum<false, true>});
  list->push_back({"argmax", TT_FLOATING | TT_INTEGER, ArgExtremum<true, false>});
  list->push_back({"argmin", TT_FLOATING | TT_INTEGER, ArgExtremum<false, false>});
  list->push_back({"any", TT_ALL_DTYPES, Any});
  list->push_back({"all", TT_ALL_DTYPES, All});
  list->push_back({"_var", TT_FLOATING, Variance<Last::kDivide>});
  list->push_back({"_std", TT_FLOATING, Variance<Last::kRootOfMean>});
  list->push_back({"_norm", TT_FLOATING, Norm});
}

}  // namespace telensor::cpu::TT_CPU_VARIANT
