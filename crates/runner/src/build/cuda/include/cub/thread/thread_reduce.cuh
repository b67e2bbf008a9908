// Reductions of what one thread has, from the first item on.
#pragma once
#include "../../type_traits"
#include "thread_operators.cuh"

namespace cub {

// Of an array, or of what is like one.
template <class Input, class Operator> TRIBUNAL_DEVICE auto ThreadReduce(const Input &input, Operator operation) {
    std::decay_t<decltype(operation(input[0], input[0]))> all = input[0];
#pragma unroll
    for (unsigned int item = 1; item < sizeof(Input) / sizeof(input[0]); item++) all = operation(all, input[item]);
    return all;
}
template <class Input, class Operator, class Prefix>
TRIBUNAL_DEVICE auto ThreadReduce(const Input &input, Operator operation, Prefix prefix) {
    std::decay_t<decltype(operation(prefix, input[0]))> all = prefix;
#pragma unroll
    for (unsigned int item = 0; item < sizeof(Input) / sizeof(input[0]); item++) all = operation(all, input[item]);
    return all;
}

}
