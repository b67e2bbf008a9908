// Numbers from a first one on.
#pragma once
#include "cache_modified_input_iterator.cuh"

namespace cub {

template <class Value, class Offset = ptrdiff_t>
class CountingInputIterator : public tribunal_iterator<CountingInputIterator<Value, Offset>, Value, Offset> {
    Value first;

  public:
    TRIBUNAL_BOTH CountingInputIterator(const Value &first) : first(first) {}
    TRIBUNAL_BOTH Value &tribunal_place() { return first; }
    template <class Distance> TRIBUNAL_MEMBER Value tribunal_at(Distance n) const { return first + (Value)n; }
};

}
