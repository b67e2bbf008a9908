// Mathematics: all of it is in the prelude.
#pragma once
