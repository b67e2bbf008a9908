// Sizes.
#pragma once
#include <cuda/std/cstddef>
