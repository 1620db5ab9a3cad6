// What other people's headers define: <windows.h> (min, max, small, near, far, interface, ERROR),
// <complex.h> (I), old <ctype.h> (_N and its kin). Ours must compile all the same. check.sh includes the
// standard headers that ours use before this file, since nothing else can be asked of those.
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define small char
#define near
#define far
#define interface struct
#define ERROR 0
#define IN
#define OUT
#define OPTIONAL
#define I (__extension__ 1.0iF)
#define _N 04
#define _B 0200
#define _X 0100
#define major(x) ((x) >> 8)
#define minor(x) ((x)&255)
