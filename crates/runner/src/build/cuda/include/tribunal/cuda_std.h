// What is in namespace std is in cuda::std too.
#pragma once
namespace std {
}
namespace cuda {
namespace std {
using namespace ::std;
}
}
