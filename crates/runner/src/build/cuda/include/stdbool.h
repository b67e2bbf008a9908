// bool, true and false are words of C++.
#pragma once
