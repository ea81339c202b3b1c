// The elementwise functors of every backend. An elementwise op is its row in the table, a functor, and the line of
// functor_list.h where the two meet.
//
// Functors compute in the type they are given: backends hand 16-bit floats over as float.
#pragma once

#include "kernels/functor_list.h"
#include "kernels/functors_binary.h"
#include "kernels/functors_unary.h"
