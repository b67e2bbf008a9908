// Bytes: memcpy and its kin are in the prelude.
#pragma once
