// What looks like a pointer to values, and reads them with a hint how they are cached; and values that are calculated where they are read.
#pragma once
#include "../../iterator"
#include "../thread/thread_load.cuh"

namespace cub {

// What one can be moved by and read.
template <class Self, class Value, class Offset> struct tribunal_iterator {
    typedef Self self_type;
    typedef Offset difference_type;
    typedef Value value_type;
    typedef Value reference;
    typedef Value *pointer;
    typedef std::random_access_iterator_tag iterator_category;

    TRIBUNAL_BOTH Self &self() { return static_cast<Self &>(*this); }
    TRIBUNAL_BOTH const Self &self() const { return static_cast<const Self &>(*this); }
    TRIBUNAL_MEMBER Value operator*() const { return self().tribunal_at(0); }
    template <class Distance> TRIBUNAL_MEMBER Value operator[](Distance n) const { return self().tribunal_at(n); }
    template <class Distance> TRIBUNAL_BOTH Self &operator+=(Distance n) {
        self().tribunal_place() += n;
        return self();
    }
    template <class Distance> TRIBUNAL_BOTH Self &operator-=(Distance n) {
        self().tribunal_place() -= n;
        return self();
    }
    template <class Distance> TRIBUNAL_BOTH Self operator+(Distance n) const { return Self(self()) += n; }
    template <class Distance> TRIBUNAL_BOTH Self operator-(Distance n) const { return Self(self()) -= n; }
    TRIBUNAL_BOTH Offset operator-(const Self &other) const {
        return (Offset)(Self(self()).tribunal_place() - Self(other).tribunal_place());
    }
    TRIBUNAL_BOTH Self &operator++() { return *this += 1; }
    TRIBUNAL_BOTH Self operator++(int) {
        Self before = self();
        *this += 1;
        return before;
    }
    TRIBUNAL_BOTH bool operator==(const Self &other) const {
        return Self(self()).tribunal_place() == Self(other).tribunal_place();
    }
    TRIBUNAL_BOTH bool operator!=(const Self &other) const { return !(*this == other); }
};

template <CacheLoadModifier Modifier, class Value, class Offset = ptrdiff_t>
struct CacheModifiedInputIterator : tribunal_iterator<CacheModifiedInputIterator<Modifier, Value, Offset>, Value, Offset> {
    Value *ptr;
    template <class From> TRIBUNAL_BOTH CacheModifiedInputIterator(From *ptr) : ptr(const_cast<std::remove_cv_t<From> *>(ptr)) {}
    TRIBUNAL_BOTH Value *&tribunal_place() { return ptr; }
    template <class Distance> TRIBUNAL_MEMBER Value tribunal_at(Distance n) const { return ThreadLoad<Modifier>(ptr + n); }
};

}
