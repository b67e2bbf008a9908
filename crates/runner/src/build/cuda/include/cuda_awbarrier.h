// Barriers in shared memory that count arrivals.
#pragma once
#include "cuda_awbarrier_primitives.h"
