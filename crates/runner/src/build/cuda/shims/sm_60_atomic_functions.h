// Empty: the compiler has what a kernel needs of it built in.
#pragma once
