// Scans of a tile or of coalesced threads: what each thread's value makes with those of the ranks below.
#pragma once
#include "reduce.h"

namespace cooperative_groups {

template <class Group, class T, class Operation>
TRIBUNAL_DEVICE T inclusive_scan(const Group &group, T value, Operation operation) {
#pragma unroll
    for (unsigned int distance = 1; distance < group.size(); distance *= 2) {
        T other = group.shfl_up(value, distance);
        if (group.thread_rank() >= distance) value = operation(other, value);
    }
    return value;
}
template <class Group, class T> TRIBUNAL_DEVICE T inclusive_scan(const Group &group, T value) {
    return inclusive_scan(group, value, plus<T>());
}
// Without the thread's own; rank 0 gets T().
template <class Group, class T, class Operation>
TRIBUNAL_DEVICE T exclusive_scan(const Group &group, T value, Operation operation) {
    T before = group.shfl_up(inclusive_scan(group, value, operation), 1);
    return group.thread_rank() == 0 ? T() : before;
}
template <class Group, class T> TRIBUNAL_DEVICE T exclusive_scan(const Group &group, T value) {
    return exclusive_scan(group, value, plus<T>());
}

}
