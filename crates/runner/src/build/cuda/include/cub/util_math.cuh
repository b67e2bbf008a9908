// Quotients that are rounded up.
#pragma once

namespace cub {

template <class A, class B> TRIBUNAL_BOTH constexpr A DivideAndRoundUp(A a, B b) { return a / b + (a % b != 0 ? 1 : 0); }

}
