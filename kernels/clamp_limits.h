// What clamp's two numbers, absent or not, limit elements of a type to: for its functor and for its gradient's.
#pragma once

#include <algorithm>
#include <limits>

#include "kernels/functors_unary.h"
#include "kernels/plugin_abi.h"

namespace telensor {

// Never a function of its own: the CPU backend is compiled for several instruction sets, and the linker would keep one.
template <typename C>
inline __attribute__((always_inline)) functors::Clamp<C> ClampLimits(const tt_value& low, const tt_value& high) {
  using Limits = std::numeric_limits<C>;
  functors::Clamp<C> clamp;
  if constexpr (std::is_floating_point_v<C>) {
    clamp.low = low.kind != 0 ? static_cast<C>(low.f) : -Limits::infinity();
    clamp.high = high.kind != 0 ? static_cast<C>(high.f) : Limits::infinity();
    clamp.undefined = functors::IsNan(clamp.low) || functors::IsNan(clamp.high);
  } else {
    // Integers, as any float makes the result floating. A limit beyond the type's range limits as the end of the range.
    const auto within = [](int64_t v) { return static_cast<C>(std::clamp<int64_t>(v, Limits::min(), Limits::max())); };
    clamp.low = low.kind != 0 ? within(low.i) : Limits::min();
    clamp.high = high.kind != 0 ? within(high.i) : Limits::max();
  }
  return clamp;
}

}  // namespace telensor
