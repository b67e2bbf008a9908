// Copies from global to shared memory by the threads of a group, to be waited for.
#pragma once
#include "../cooperative_groups.h"
#include "../tribunal/copies.h"

namespace cooperative_groups {

// Each copy is a stage of its own. `bytes` is a number, or an aligned_size_t.
template <class Group, class To, class From, class Bytes>
TRIBUNAL_DEVICE void memcpy_async(const Group &group, To *to, const From *from, Bytes bytes) {
    tribunal_copy<cuda::tribunal_alignment<Bytes>>(group.thread_rank(), group.size(), to, from, bytes);
    __pipeline_commit();
}
// As many elements as there are of both.
template <class Group, class T>
TRIBUNAL_DEVICE void memcpy_async(const Group &group, T *to, size_t room, const T *from, size_t count) {
    memcpy_async(group, to, from, cuda::aligned_size_t<alignof(T)>((count < room ? count : room) * sizeof(T)));
}

// Until all but the last `Stages` copies of every thread of the group have come.
template <unsigned int Stages, class Group> TRIBUNAL_DEVICE void wait_prior(const Group &group) {
    __pipeline_wait_prior(Stages);
    group.sync();
}
template <class Group> TRIBUNAL_DEVICE void wait(const Group &group) { wait_prior<0>(group); }

}
