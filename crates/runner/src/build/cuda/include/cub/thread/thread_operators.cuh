// Operators of reductions and scans.
#pragma once
#include "../util_type.cuh"

namespace cub {

struct Equality {
    template <class A, class B> TRIBUNAL_MEMBER bool operator()(const A &a, const B &b) const { return a == b; }
};
struct Inequality {
    template <class A, class B> TRIBUNAL_MEMBER bool operator()(const A &a, const B &b) const { return a != b; }
};
struct Sum {
    template <class A, class B> TRIBUNAL_MEMBER auto operator()(const A &a, const B &b) const { return a + b; }
};
struct Difference {
    template <class A, class B> TRIBUNAL_MEMBER auto operator()(const A &a, const B &b) const { return a - b; }
};
struct Max {
    template <class T> TRIBUNAL_MEMBER T operator()(const T &a, const T &b) const { return b > a ? b : a; }
};
struct Min {
    template <class T> TRIBUNAL_MEMBER T operator()(const T &a, const T &b) const { return b < a ? b : a; }
};
// Of pairs of an index and a value, that with the larger value; of equal ones, that with the smaller index.
struct ArgMax {
    template <class K, class V>
    TRIBUNAL_MEMBER KeyValuePair<K, V> operator()(const KeyValuePair<K, V> &a, const KeyValuePair<K, V> &b) const {
        return b.value > a.value || (a.value == b.value && b.key < a.key) ? b : a;
    }
};
struct ArgMin {
    template <class K, class V>
    TRIBUNAL_MEMBER KeyValuePair<K, V> operator()(const KeyValuePair<K, V> &a, const KeyValuePair<K, V> &b) const {
        return b.value < a.value || (a.value == b.value && b.key < a.key) ? b : a;
    }
};

}
