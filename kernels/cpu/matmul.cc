// mm, bmm, addmm and linear: one batched product behind four signatures.
//
// float32 goes to OpenBLAS while small and to oneDNN's sgemm, which is faster on two and more threads, when large;
// float64 to OpenBLAS; bfloat16 to oneDNN where the processor has instructions for it; other 16-bit products are
// computed in float32 and rounded once; integers, which wrap, have loops of their own.
#include <cblas.h>
#include <oneapi/dnnl/dnnl.h>

#include <climits>
#include <cstring>

#include "kernels/cpu/dense.h"
#include "kernels/cpu/dnnl_cache.h"
#include "kernels/cpu/families.h"

namespace telensor::cpu::TT_CPU_VARIANT {

namespace {

constexpr int64_t kTinyProduct = 128;            // multiplications; below, a call of a library costs more
constexpr int64_t kSmallProduct = 64 * 64 * 64;  // below, OpenBLAS beats oneDNN, and neither uses threads
constexpr int64_t kStackElements = 1024;

// A batch of matrices in a tensor's memory; strides in elements.
struct Layout {
  int64_t batch, rows, cols;
  int64_t batch_stride, row_stride, col_stride;
};

// A batch of matrices as BLAS takes them; `transposed` ones are stored by columns.
template <typename C>
struct Operand {
  const C* data;
  int64_t batch_stride;
  int64_t ld;
  bool transposed;
};

// alpha * a @ b + beta * self; `self` is spread over the result by strides of 0.
struct Product {
  const void *a, *b;
  Layout a_layout, b_layout;
  const tt_tensor* self;  // NULL, or with beta != 0
  Layout self_layout;
  tt_value alpha, beta;
  bool scaled;  // alpha != 1 or beta != 1
  int64_t batch, m, n, k;
};

// Chooses how BLAS can read the matrices in place; false where a copy is needed.
bool BlasForm(const Layout& l, int64_t* ld, bool* transposed) {
  if (l.cols == 1 && l.row_stride >= 1) {
    *transposed = false;
    *ld = l.row_stride;
  } else if (l.col_stride == 1 && (l.rows == 1 || l.row_stride >= l.cols)) {
    *transposed = false;
    *ld = l.rows == 1 ? l.cols : l.row_stride;
  } else if ((l.row_stride == 1 || l.rows == 1) && l.col_stride >= l.rows) {
    *transposed = true;
    *ld = l.col_stride;
  } else {
    return false;
  }
  return true;
}

// The matrices as C, in place or copied: to `small` if they fit there, else to the workspace.
template <typename T, typename C>
int Prepare(tt_call* call, const void* data, const Layout& l, C* small, Operand<C>* out) {
  if constexpr (std::is_same_v<T, C>) {
    if (BlasForm(l, &out->ld, &out->transposed)) {
      out->data = static_cast<const C*>(data);
      out->batch_stride = l.batch_stride;
      return TT_OK;
    }
  }
  // In the order of the memory: transposing is left to the product.
  out->transposed = l.row_stride == 1 && l.col_stride != 1;
  const int64_t sizes[3] = {l.batch, out->transposed ? l.cols : l.rows, out->transposed ? l.rows : l.cols};
  const int64_t strides[3] = {l.batch_stride, out->transposed ? l.col_stride : l.row_stride,
                              out->transposed ? l.row_stride : l.col_stride};
  out->ld = sizes[2];
  out->batch_stride = sizes[1] * sizes[2];
  if (l.batch * out->batch_stride <= kStackElements) {
    C* to = small;
    for (int64_t b = 0; b < sizes[0]; ++b) {
      for (int64_t i = 0; i < sizes[1]; ++i, to += sizes[2]) {
        LoadAs<T, C>(static_cast<const T*>(data) + b * strides[0] + i * strides[1], sizes[2], strides[2], to);
      }
    }
    out->data = small;
    return TT_OK;
  }
  tt_tensor tensor = {};
  tensor.data = const_cast<void*>(data);
  tensor.sizes = sizes;
  tensor.strides = strides;
  tensor.rank = 3;
  tensor.numel = sizes[0] * sizes[1] * sizes[2];
  out->data = Dense<T, C>(call, tensor);
  return out->data == nullptr ? FailMemory(call) : TT_OK;
}

// One product of matrices; element (i, j) of an operand is at i * row + j * col.
template <typename C>
void DirectGemm(int64_t m, int64_t n, int64_t k, C alpha, const C* a, int64_t a_row, int64_t a_col, const C* b,
                int64_t b_row, int64_t b_col, C beta, C* c, int64_t ldc) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      C sum = 0;
      for (int64_t p = 0; p < k; ++p) sum += a[i * a_row + p * a_col] * b[p * b_row + j * b_col];
      C& to = c[i * ldc + j];
      to = beta == 0 ? alpha * sum : alpha * sum + beta * to;
    }
  }
}

void BlasGemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, float alpha, const float* a, int lda,
              const float* b, int ldb, float beta, float* c, int ldc) {
  cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void BlasGemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, double alpha, const double* a, int lda,
              const double* b, int ldb, double beta, double* c, int ldc) {
  cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void BlasGemv(CBLAS_TRANSPOSE t, int rows, int cols, float alpha, const float* a, int lda, const float* x, int incx,
              float* y, int incy) {
  cblas_sgemv(CblasRowMajor, t, rows, cols, alpha, a, lda, x, incx, 1.0f, y, incy);
}
void BlasGemv(CBLAS_TRANSPOSE t, int rows, int cols, double alpha, const double* a, int lda, const double* x, int incx,
              double* y, int incy) {
  cblas_dgemv(CblasRowMajor, t, rows, cols, alpha, a, lda, x, incx, 1.0, y, incy);
}

template <typename C>
int Gemm(tt_call* call, int64_t m, int64_t n, int64_t k, C alpha, const Operand<C>& a, const C* ad,
         const Operand<C>& b, const C* bd, C beta, C* c) {
  const int64_t a_row = a.transposed ? 1 : a.ld, a_col = a.transposed ? a.ld : 1;
  const int64_t b_row = b.transposed ? 1 : b.ld, b_col = b.transposed ? b.ld : 1;
  const bool fits = std::max({m, n, k, a.ld, b.ld}) <= INT_MAX;
  const double work = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  if (work <= kTinyProduct) {
    DirectGemm<C>(m, n, k, alpha, ad, a_row, a_col, bd, b_row, b_col, beta, c, n);
    return TT_OK;
  }
  if (fits && (m == 1 || n == 1)) {
    // Scaled here, so that what an uninitialised result holds can't matter.
    const int64_t count = m * n;
    if (beta == 0) std::fill(c, c + count, C(0));
    if (beta != 0 && beta != 1) std::for_each(c, c + count, [beta](C& v) { v *= beta; });
    const int ms = static_cast<int>(m), ns = static_cast<int>(n), ks = static_cast<int>(k);
    const int lda = static_cast<int>(a.ld), ldb = static_cast<int>(b.ld);
    if (n == 1) {
      BlasGemv(a.transposed ? CblasTrans : CblasNoTrans, a.transposed ? ks : ms, a.transposed ? ms : ks, alpha, ad, lda,
               bd, static_cast<int>(b_row), c, 1);
    } else {
      BlasGemv(b.transposed ? CblasNoTrans : CblasTrans, b.transposed ? ns : ks, b.transposed ? ks : ns, alpha, bd, ldb,
               ad, static_cast<int>(a_col), c, 1);
    }
    return TT_OK;
  }
  if constexpr (std::is_same_v<C, float>) {
    if (!fits || work > kSmallProduct) {
      const dnnl_status_t status = dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, alpha, ad,
                                              a.ld, bd, b.ld, beta, c, n);
      if (status == dnnl_success) return TT_OK;
      return Fail(call, status == dnnl_out_of_memory ? TT_OUT_OF_MEMORY : TT_INTERNAL, "oneDNN: sgemm failed (%d)",
                  static_cast<int>(status));
    }
  } else if (!fits) {
    DirectGemm<C>(m, n, k, alpha, ad, a_row, a_col, bd, b_row, b_col, beta, c, n);
    return TT_OK;
  }
  BlasGemm(a.transposed ? CblasTrans : CblasNoTrans, b.transposed ? CblasTrans : CblasNoTrans, static_cast<int>(m),
           static_cast<int>(n), static_cast<int>(k), alpha, ad, static_cast<int>(a.ld), bd, static_cast<int>(b.ld),
           beta, c, static_cast<int>(n));
  return TT_OK;
}

// Spreads `self` over the dense result `out`.
template <typename T, typename C>
void SpreadSelf(const Product& p, C* out) {
  const T* src = static_cast<const T*>(p.self->data);
  const Layout& l = p.self_layout;
  ParallelFor(p.m, std::max<int64_t>(1, kGrain / std::max<int64_t>(p.n, 1)), [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) LoadAs<T, C>(src + i * l.row_stride, p.n, l.col_stride, out + i * p.n);
  });
}

// In the compute type C: float or double. The result is `out` itself, or rounded into it.
template <typename T>
int FloatProduct(tt_call* call, const Product& p) {
  using C = ComputeType<T>;
  T* out = static_cast<T*>(call->outputs[0].data);
  const int64_t count = p.batch * p.m * p.n;
  C alpha = static_cast<C>(NumberOf(p.alpha));
  const C beta = p.self == nullptr ? C(0) : static_cast<C>(NumberOf(p.beta));
  alignas(64) C a_small[kStackElements], b_small[kStackElements], c_small[kIs16Bit<T> ? kStackElements : 1];
  C* c = nullptr;
  if constexpr (std::is_same_v<T, C>) {
    c = out;
  } else {
    c = count <= kStackElements ? c_small : Workspace<C>(call, count);
    if (c == nullptr) return FailMemory(call);
  }
  if (p.self != nullptr) SpreadSelf<T, C>(p, c);
  if (p.k == 0) {
    if (p.self == nullptr) std::fill(c, c + count, C(0));
    if (p.self != nullptr && beta != 1) std::for_each(c, c + count, [beta](C& v) { v *= beta; });
  } else {
    Operand<C> a, b;
    if (const int code = Prepare<T, C>(call, p.a, p.a_layout, a_small, &a); code != TT_OK) return code;
    if (const int code = Prepare<T, C>(call, p.b, p.b_layout, b_small, &b); code != TT_OK) return code;
    const int64_t each = p.m * p.n * p.k;
    int failed = TT_OK;
    const auto some = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int code = Gemm<C>(call, p.m, p.n, p.k, alpha, a, a.data + i * a.batch_stride, b,
                                 b.data + i * b.batch_stride, beta, c + i * p.m * p.n);
        if (code != TT_OK) failed = code;
      }
    };
    // A batch is shared out whole; few large products use threads inside.
    if (p.batch >= omp_get_max_threads()) {
      ParallelFor(p.batch, std::max<int64_t>(1, 16 * kGrain / std::max<int64_t>(each, 1)), some);
    } else {
      some(0, p.batch);
    }
    if (failed != TT_OK) return failed;
  }
  if constexpr (kIs16Bit<T>) StoreAll<T>(c, count, out);
  return TT_OK;
}

enum : int64_t { kKeyBatch = 1, kKeyM, kKeyN, kKeyK, kKeyA, kKeyB = 8, kKeyFloatResult = 11 };

void MakeBFloat16Plan(const DnnlKey& key, DnnlPlan* plan) {
  using dnnl::memory;
  const auto desc = [&key](int64_t rows, int64_t cols, const int64_t* strides, memory::data_type type) {
    if (key[kKeyBatch] == 1) return memory::desc({rows, cols}, type, memory::dims{strides[1], strides[2]});
    return memory::desc({key[kKeyBatch], rows, cols}, type, memory::dims{strides[0], strides[1], strides[2]});
  };
  const int64_t m = key[kKeyM], n = key[kKeyN], k = key[kKeyK];
  const int64_t result_strides[3] = {m * n, n, 1};
  const auto a = desc(m, k, &key[kKeyA], memory::data_type::bf16);
  const auto b = desc(k, n, &key[kKeyB], memory::data_type::bf16);
  const auto c = desc(m, n, result_strides, key[kKeyFloatResult] ? memory::data_type::f32 : memory::data_type::bf16);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::matmul::primitive_desc pd(dnnl::matmul::desc(a, b, c), attr, DnnlEngine());
  if (std::strncmp(pd.impl_info_str(), "ref", 3) == 0) return;  // slower than converting
  plan->AddInput(DNNL_ARG_SRC, a, a);
  plan->AddInput(DNNL_ARG_WEIGHTS, b, b);
  plan->AddOutput(DNNL_ARG_DST, c, c);
  plan->Finish(dnnl::matmul(pd), pd.scratchpad_desc());
}

// out = alpha * product + beta * self, rounded once.
void FoldBFloat16(const Product& p, const float* product, BFloat16* out) {
  const float alpha = static_cast<float>(NumberOf(p.alpha)), beta = static_cast<float>(NumberOf(p.beta));
  const BFloat16* self = static_cast<const BFloat16*>(p.self == nullptr ? nullptr : p.self->data);
  const Layout& l = p.self_layout;
  ParallelFor(p.m, std::max<int64_t>(1, kGrain / std::max<int64_t>(p.n, 1)), [&](int64_t begin, int64_t end) {
    alignas(64) float x[kRun], s[kRun];
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t j = 0; j < p.n; j += kRun) {
        const int64_t count = std::min(kRun, p.n - j);
        for (int64_t q = 0; q < count; ++q) x[q] = alpha * product[i * p.n + j + q];
        if (self != nullptr) {
          LoadAs<BFloat16, float>(self + i * l.row_stride + j * l.col_stride, count, l.col_stride, s);
          for (int64_t q = 0; q < count; ++q) x[q] += beta * s[q];
        }
        StoreRun<BFloat16>(x, count, out + i * p.n + j);
      }
    }
  });
}

int BFloat16Product(tt_call* call, const Product& p) {
  const double work = static_cast<double>(p.batch) * static_cast<double>(p.m) * static_cast<double>(p.n) *
                      static_cast<double>(p.k);
  if (p.k == 0 || work <= 32 * 32 * 32) return FloatProduct<BFloat16>(call, p);
  const bool folded = p.scaled || p.self != nullptr;
  DnnlKey key{};
  alignas(64) BFloat16 unused[kStackElements], unused_too[kStackElements];
  Operand<BFloat16> a, b;
  if (const int code = Prepare<BFloat16, BFloat16>(call, p.a, p.a_layout, unused, &a); code != TT_OK) return code;
  if (const int code = Prepare<BFloat16, BFloat16>(call, p.b, p.b_layout, unused_too, &b); code != TT_OK) return code;
  const int64_t words[] = {/*operation*/ 1, p.batch, p.m, p.n, p.k,
                           a.batch_stride, a.transposed ? 1 : a.ld, a.transposed ? a.ld : 1,
                           b.batch_stride, b.transposed ? 1 : b.ld, b.transposed ? b.ld : 1, folded};
  std::copy(std::begin(words), std::end(words), key.begin());
  const auto plan = FindDnnlPlan(key, MakeBFloat16Plan);
  if (plan == nullptr || !plan->supported()) return FloatProduct<BFloat16>(call, p);
  void* result = call->outputs[0].data;
  if (folded) result = Workspace<float>(call, p.m * p.n);
  if (result == nullptr) return FailMemory(call);
  void* data[] = {const_cast<BFloat16*>(a.data), const_cast<BFloat16*>(b.data), result};
  if (const int code = plan->Run(call, data); code != TT_OK) return code;
  if (folded) FoldBFloat16(p, static_cast<const float*>(result), static_cast<BFloat16*>(call->outputs[0].data));
  return TT_OK;
}

// Sums wrap, in whatever order they are taken.
template <typename T>
int IntegerProduct(tt_call* call, const Product& p) {
  using W = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  constexpr int64_t kBlockK = 64, kBlockN = 1024;
  T* out = static_cast<T*>(call->outputs[0].data);
  Layout lb = p.b_layout;
  const T* b = static_cast<const T*>(p.b);
  alignas(64) T small[kStackElements];
  if (lb.col_stride != 1 && lb.cols > 1 && p.k > 0) {
    // The inner loop runs along rows of b.
    const int64_t sizes[3] = {lb.batch, lb.rows, lb.cols}, strides[3] = {lb.batch_stride, lb.row_stride, lb.col_stride};
    const int64_t dense[3] = {lb.rows * lb.cols, lb.cols, 1}, count = lb.batch * lb.rows * lb.cols;
    T* copy = count <= kStackElements ? small : Workspace<T>(call, count);
    if (copy == nullptr) return FailMemory(call);
    CopyStrided(sizeof(T), copy, dense, b, strides, sizes, 3);
    b = copy;
    lb.batch_stride = dense[0];
    lb.row_stride = dense[1];
  }
  const auto whole = [](const tt_value& v) {
    return static_cast<W>(v.kind == 3 ? static_cast<int64_t>(std::min(std::max(v.f, -9e18), 9e18)) : v.i);
  };
  const W alpha = whole(p.alpha), beta = whole(p.beta);
  const Layout& la = p.a_layout;
  const Layout& ls = p.self_layout;
  const T* a = static_cast<const T*>(p.a);
  const T* self = static_cast<const T*>(p.self == nullptr ? nullptr : p.self->data);
  const int64_t each = std::max<int64_t>(1, p.n * std::max<int64_t>(p.k, 1));
  ParallelFor(p.batch * p.m, std::max<int64_t>(1, kGrain / each), [=, &la, &ls](int64_t begin, int64_t end) {
    std::fill(out + begin * p.n, out + end * p.n, T(0));
    for (int64_t j0 = 0; j0 < p.n; j0 += kBlockN) {
      const int64_t n = std::min(kBlockN, p.n - j0);
      for (int64_t p0 = 0; p0 < p.k; p0 += kBlockK) {
        const int64_t p1 = std::min(p.k, p0 + kBlockK);
        for (int64_t r = begin; r < end; ++r) {
          const int64_t batch = r / p.m, i = r % p.m;
          T* to = out + r * p.n + j0;
          for (int64_t q = p0; q < p1; ++q) {
            const W x = static_cast<W>(a[batch * la.batch_stride + i * la.row_stride + q * la.col_stride]);
            const T* row = b + batch * lb.batch_stride + q * lb.row_stride + j0;
            for (int64_t j = 0; j < n; ++j) to[j] = static_cast<T>(static_cast<W>(to[j]) + x * static_cast<W>(row[j]));
          }
        }
      }
    }
    if (!p.scaled && self == nullptr) return;
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t j = 0; j < p.n; ++j) {
        W value = alpha * static_cast<W>(out[r * p.n + j]);
        if (self != nullptr) value += beta * static_cast<W>(self[r * ls.row_stride + j * ls.col_stride]);
        out[r * p.n + j] = static_cast<T>(value);
      }
    }
  });
  return TT_OK;
}

int Multiply(tt_call* call, const Product& p) {
  if (p.batch == 0 || p.m == 0 || p.n == 0) return TT_OK;
  const int dtype = call->inputs[0].dtype;
  for (int i = 0; i < call->num_inputs; ++i) {
    if (Present(call->inputs[i]) && call->inputs[i].dtype != dtype) return Fail(call, TT_INTERNAL, "dtypes differ");
  }
  if (dtype == TT_BFLOAT16) return BFloat16Product(call, p);
  return DispatchNumber(call, dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>) {
      return IntegerProduct<T>(call, p);
    } else {
      return FloatProduct<T>(call, p);
    }
  });
}

Layout MatrixLayout(const tt_tensor& t) {
  const int r = t.rank;
  return {r == 3 ? t.sizes[0] : 1, t.sizes[r - 2], t.sizes[r - 1], r == 3 ? t.strides[0] : 0, t.strides[r - 2],
          t.strides[r - 1]};
}

Product MakeProduct(const tt_tensor& a, const Layout& al, const tt_tensor& b, const Layout& bl) {
  tt_value one = {};
  one.kind = 2;
  one.i = 1;
  return {a.data, b.data, al, bl, nullptr, {}, one, one, false, al.batch, al.rows, bl.cols, al.cols};
}

int CheckRank(tt_call* call, int first, int rank) {
  for (int i = first; i < first + 2; ++i) {
    if (call->inputs[i].rank != rank) return Fail(call, TT_INVALID_ARGUMENT, "expected tensors of %d dimensions", rank);
  }
  const tt_tensor &a = call->inputs[first], &b = call->inputs[first + 1];
  if (a.sizes[rank - 1] != b.sizes[rank - 2] || (rank == 3 && a.sizes[0] != b.sizes[0])) {
    return Fail(call, TT_INVALID_ARGUMENT, "the sizes of the matrices do not fit");
  }
  return TT_OK;
}

template <int kRank>
int MatrixProduct(tt_call* call) {
  if (const int code = CheckRank(call, 0, kRank); code != TT_OK) return code;
  const tt_tensor &a = call->inputs[0], &b = call->inputs[1];
  return Multiply(call, MakeProduct(a, MatrixLayout(a), b, MatrixLayout(b)));
}

int Addmm(tt_call* call) {
  if (const int code = CheckRank(call, 1, 2); code != TT_OK) return code;
  const tt_tensor &self = call->inputs[0], &a = call->inputs[1], &b = call->inputs[2];
  Product p = MakeProduct(a, MatrixLayout(a), b, MatrixLayout(b));
  p.beta = call->attrs[0];
  p.alpha = call->attrs[1];
  p.scaled = NumberOf(p.alpha) != 1 || NumberOf(p.beta) != 1;
  if (NumberOf(p.beta) != 0) p.self = &self;  // NaN in an ignored tensor is ignored too
  const int r = self.rank;
  p.self_layout = {1, p.m, p.n, 0, r == 2 && self.sizes[0] != 1 ? self.strides[0] : 0,
                   r >= 1 && self.sizes[r - 1] != 1 ? self.strides[r - 1] : 0};
  return Multiply(call, p);
}

int Linear(tt_call* call) {
  tt_tensor input = call->inputs[0];
  const tt_tensor &weight = call->inputs[1], &bias = call->inputs[2];
  const int r = input.rank;
  if (r == 0 || weight.rank != 2 || weight.sizes[1] != input.sizes[r - 1]) {
    return Fail(call, TT_INVALID_ARGUMENT, "the sizes of input and weight do not fit");
  }
  const int64_t features = input.sizes[r - 1];
  Layout rows = {1, 1, features, 0, features, input.strides[r - 1]};
  bool merges = true;  // the leading dimensions into one
  for (int d = r - 2; d >= 0; --d) {
    if (input.sizes[d] == 1) continue;
    if (rows.rows == 1) rows.row_stride = input.strides[d];
    merges = merges && input.strides[d] == rows.row_stride * rows.rows;
    rows.rows *= input.sizes[d];
  }
  if (!merges && input.numel > 0) {
    DispatchSize(ElementSize(input.dtype), [&](auto tag) {
      using U = typename decltype(tag)::type;
      input.data = const_cast<U*>(Dense<U>(call, input));
    });
    if (input.data == nullptr) return FailMemory(call);
    rows.row_stride = features;
    rows.col_stride = 1;
  }
  const Layout columns = {1, features, weight.sizes[0], 0, weight.strides[1], weight.strides[0]};
  Product p = MakeProduct(input, rows, weight, columns);
  if (Present(bias)) {
    p.self = &bias;
    p.self_layout = {1, p.m, p.n, 0, 0, bias.strides[0]};
  }
  return Multiply(call, p);
}

}  // namespace

void AppendMatmulKernels(KernelList* list) {
  constexpr uint32_t kNumber = TT_FLOATING | TT_INTEGER;
  list->push_back({"mm", kNumber, MatrixProduct<2>});
  list->push_back({"bmm", kNumber, MatrixProduct<3>});
  list->push_back({"addmm", kNumber, Addmm});
  list->push_back({"linear", kNumber, Linear});
}

}  // namespace telensor::cpu::TT_CPU_VARIANT
