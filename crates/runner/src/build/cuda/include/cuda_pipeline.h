// Copies from global to shared memory that a thread does not wait for at once.
#pragma once
#include "cuda_awbarrier_primitives.h"
#include "cuda_pipeline_primitives.h"
