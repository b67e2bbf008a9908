// Limits of the integers.
#pragma once
#include <cuda/std/climits>
