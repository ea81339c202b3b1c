#include "kernels/cpu/gemm.h"

#include <cblas.h>

namespace telensor::cpu::TT_CPU_VARIANT {
namespace {

// Below this many multiplications a library call costs more than the product.
constexpr int64_t kTiny = 512;

template <typename T, typename Fn>
void Product(const Matrix& a, const Matrix& b, T* c, T alpha, T beta, const Fn& blas) {
  const int64_t m = a.rows, k = a.columns, n = b.columns;
  if (m == 0 || n == 0) return;
  if (k == 0) {
    for (int64_t i = 0; i < m * n; ++i) c[i] = beta == T(0) ? T(0) : beta * c[i];
    return;
  }
  if (m * n * k <= kTiny) {
    const T* pa = static_cast<const T*>(a.data);
    const T* pb = static_cast<const T*>(b.data);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        T sum = 0;
        for (int64_t l = 0; l < k; ++l) sum += pa[i * a.row_stride + l * a.column_stride] * pb[l * b.row_stride + j * b.column_stride];
        c[i * n + j] = alpha * sum + (beta == T(0) ? T(0) : beta * c[i * n + j]);
      }
    }
    return;
  }
  const bool ta = a.column_stride != 1 || a.row_stride < a.columns;
  const bool tb = b.column_stride != 1 || b.row_stride < b.columns;
  const int64_t lda = std::max<int64_t>(ta ? a.column_stride : a.row_stride, 1);
  const int64_t ldb = std::max<int64_t>(tb ? b.column_stride : b.row_stride, 1);
  blas(ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, m, n, k, alpha, static_cast<const T*>(a.data), lda,
       static_cast<const T*>(b.data), ldb, beta, c, n);
}

}  // namespace

void Gemm(const Matrix& a, const Matrix& b, float* c, float alpha, float beta) {
  Product(a, b, c, alpha, beta, [](auto ta, auto tb, int64_t m, int64_t n, int64_t k, float al, const float* pa, int64_t lda, const float* pb, int64_t ldb, float be, float* pc, int64_t ldc) {
    cblas_sgemm(CblasRowMajor, ta, tb, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), al, pa, static_cast<int>(lda), pb, static_cast<int>(ldb), be, pc, static_cast<int>(ldc));
  });
}

void Gemm(const Matrix& a, const Matrix& b, double* c, double alpha, double beta) {
  Product(a, b, c, alpha, beta, [](auto ta, auto tb, int64_t m, int64_t n, int64_t k, double al, const double* pa, int64_t lda, const double* pb, int64_t ldb, double be, double* pc, int64_t ldc) {
    cblas_dgemm(CblasRowMajor, ta, tb, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), al, pa, static_cast<int>(lda), pb, static_cast<int>(ldb), be, pc, static_cast<int>(ldc));
  });
}

}  // namespace telensor::cpu::TT_CPU_VARIANT
