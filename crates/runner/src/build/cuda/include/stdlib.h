// abs and its kin: they are in the prelude.
#pragma once
