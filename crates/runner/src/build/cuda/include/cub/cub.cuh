// What warps and blocks do together, by the names of cub: reductions, scans, loads and stores of tiles, sorting. Written for Tribunal from
// cub's public documentation; it contains no text of NVIDIA's. What host code calls (cub::DeviceReduce and its kin) is not here.
#pragma once
#include "block/block_load.cuh"
#include "block/block_radix_sort.cuh"
#include "block/block_reduce.cuh"
#include "block/block_scan.cuh"
#include "block/block_store.cuh"
#include "thread/thread_operators.cuh"
#include "util_ptx.cuh"
#include "util_type.cuh"
#include "warp/warp_reduce.cuh"
#include "warp/warp_scan.cuh"
