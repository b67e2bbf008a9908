// What a source that is built by nvcc includes first; all of it is in the prelude.
#pragma once
