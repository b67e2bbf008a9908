// Scopes of threads, orders of accesses, and the fences that make them.
#pragma once

namespace cuda {

enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };

enum class memory_order { relaxed, consume, acquire, release, acq_rel, seq_cst };
inline constexpr memory_order memory_order_relaxed = memory_order::relaxed;
inline constexpr memory_order memory_order_consume = memory_order::consume;
inline constexpr memory_order memory_order_acquire = memory_order::acquire;
inline constexpr memory_order memory_order_release = memory_order::release;
inline constexpr memory_order memory_order_acq_rel = memory_order::acq_rel;
inline constexpr memory_order memory_order_seq_cst = memory_order::seq_cst;
namespace std {
using cuda::memory_order;
using cuda::memory_order_acq_rel;
using cuda::memory_order_acquire;
using cuda::memory_order_consume;
using cuda::memory_order_relaxed;
using cuda::memory_order_release;
using cuda::memory_order_seq_cst;
}

TRIBUNAL_DEVICE void atomic_thread_fence(memory_order order, thread_scope scope = thread_scope_system) {
    if (order == memory_order_relaxed || scope == thread_scope_thread) return;
    if (scope == thread_scope_block) {
        __threadfence_block();
    } else if (scope == thread_scope_device) {
        __threadfence();
    } else {
        __threadfence_system();
    }
}

}
