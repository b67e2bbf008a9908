// What a function makes of each value of another iterator.
#pragma once
#include "cache_modified_input_iterator.cuh"

namespace cub {

template <class Value, class Operator, class Input, class Offset = ptrdiff_t>
class TransformInputIterator : public tribunal_iterator<TransformInputIterator<Value, Operator, Input, Offset>, Value, Offset> {
    Operator operation;
    Input input;

  public:
    TRIBUNAL_BOTH TransformInputIterator(Input input, Operator operation) : operation(operation), input(input) {}
    TRIBUNAL_BOTH Input &tribunal_place() { return input; }
    template <class Distance> TRIBUNAL_MEMBER Value tribunal_at(Distance n) const { return operation(input[n]); }
};

}
