// printf: it is in the prelude.
#pragma once
