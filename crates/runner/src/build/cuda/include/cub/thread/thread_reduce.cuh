// Reductions of what one thread has, from the first item on.
#pragma once
#include "../../array"
#include "../../span"
#include "../../type_traits"
#include "thread_operators.cuh"

namespace cub {

// How many items there are, by the type.
template <class> inline constexpr int tribunal_items = 0;
template <class T, size_t n> inline constexpr int tribunal_items<T[n]> = n;
template <class T, size_t n> inline constexpr int tribunal_items<std::array<T, n>> = n;
template <class T, size_t n> inline constexpr int tribunal_items<std::span<T, n>> = n == std::dynamic_extent ? 0 : n;

template <class Input, class Operator> TRIBUNAL_DEVICE auto ThreadReduce(const Input &input, Operator operation) {
    static_assert(tribunal_items<Input> > 0, "items are an array, a std::array or a std::span of a known size");
    std::decay_t<decltype(operation(input[0], input[0]))> all = input[0];
#pragma unroll
    for (int item = 1; item < tribunal_items<Input>; item++) all = operation(all, input[item]);
    return all;
}
template <class Input, class Operator, class Prefix>
TRIBUNAL_DEVICE auto ThreadReduce(const Input &input, Operator operation, Prefix prefix) {
    static_assert(tribunal_items<Input> > 0, "items are an array, a std::array or a std::span of a known size");
    std::decay_t<decltype(operation(prefix, input[0]))> all = prefix;
#pragma unroll
    for (int item = 0; item < tribunal_items<Input>; item++) all = operation(all, input[item]);
    return all;
}

}
