// Operators of Tensor, by the ops of the table.
#pragma once

#include "client-cpp/ops.h"

namespace telensor {

inline Tensor operator+(const Tensor& a, const Operand& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Operand& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Operand& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Operand& b) { return div(a, b); }
inline Tensor operator+(double a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(double a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(double a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(double a, const Tensor& b) { return div(a, b); }
inline Tensor operator-(const Tensor& a) { return neg(a); }
inline Tensor operator==(const Tensor& a, const Operand& b) { return eq(a, b); }
inline Tensor operator!=(const Tensor& a, const Operand& b) { return ne(a, b); }
inline Tensor operator<(const Tensor& a, const Operand& b) { return lt(a, b); }
inline Tensor operator<=(const Tensor& a, const Operand& b) { return le(a, b); }
inline Tensor operator>(const Tensor& a, const Operand& b) { return gt(a, b); }
inline Tensor operator>=(const Tensor& a, const Operand& b) { return ge(a, b); }
inline const Tensor& operator+=(const Tensor& a, const Operand& b) { return add_(a, b), a; }
inline const Tensor& operator-=(const Tensor& a, const Operand& b) { return sub_(a, b), a; }
inline const Tensor& operator*=(const Tensor& a, const Operand& b) { return mul_(a, b), a; }
inline const Tensor& operator/=(const Tensor& a, const Operand& b) { return div_(a, b), a; }

}  // namespace telensor
