// Prints what the bindings and NVIDIA's headers have for each function, number, size and offset:
// kind, name, the header's, the binding's. Functions are compared as the calling convention sees them:
// p is a pointer, i4 an integer or enumeration of 4 bytes, s128 a structure of 128 bytes.

#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <type_traits>

#include <cuda.h>

// The wheels of CUDA 12.0 lack a header that those of types in half precision include.
#if CUDA_VERSION < 13000
#define __CUDA_FP16_H__
#define __CUDA_BF16_H__
#define __CUDA_BF16_TYPES_EXIST__
struct __half;
struct __nv_bfloat16;
#endif

#include <cublas_v2.h>
#include <nccl.h>

namespace own {
#include CUDA_BINDING
#include NCCL_BINDING
}

template <class T> std::string kind() {
	if (std::is_pointer<T>::value)
		return "p";
	const char *letter = std::is_class<T>::value ? "s" : std::is_floating_point<T>::value ? "f" : "i";
	return letter + std::to_string(sizeof(T));
}

template <class F> struct abi;
template <class R, class... A> struct abi<R(A...)> {
	static std::string text() {
		std::string list;
		for (const std::string &k : {std::string(), kind<A>()...})
			list += k.empty() ? "" : (list.empty() ? "" : ",") + k;
		return kind<R>() + "(" + list + ")";
	}
};

static void line(const char *kind, const char *name, const std::string &header, const std::string &binding) {
	printf("%s %s %s %s\n", kind, name, header.c_str(), binding.c_str());
}

// cuBLAS overloads this function in C++. The cast selects the exported one.
typedef std::remove_pointer<decltype(static_cast<cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
	const void *, const void *, cudaDataType, int, const void *, cudaDataType, int, const void *, void *, cudaDataType, int,
	cublasComputeType_t, cublasGemmAlgo_t)>(cublasGemmEx))>::type real_cublasGemmEx;

#define FUNCTION(name, parameters) line("function", #name, abi<decltype(::name)>::text(), [] { using namespace own; return abi<int parameters>::text(); }());
#define CUBLAS_FUNCTION(name, parameters) line("function", #name, abi<real_##name>::text(), [] { using namespace own; return abi<int parameters>::text(); }());
#define FIELD_FUNCTION(field, name, parameters) FUNCTION(name, parameters)
#define NUMBER_OF(own_name, name, value) line("number", #name, std::to_string((long long)(name)), std::to_string((long long)(value)));
#define REAL(name) typedef decltype(::name) real_##name;
REAL(cublasCreate_v2)
REAL(cublasDestroy_v2)
REAL(cublasSetStream_v2)

// Later versions append to ncclConfig_t, so the binding's size is at most the header's.
#define OFFSET(name) line("offset", #name, std::to_string(offsetof(ncclConfig_t, name)), std::to_string(offsetof(own::config, name)));
#define GO_NUMBER(name) line("go", #name, std::to_string((long long)name), "-");

int main() {
	CUDA_CALLS(FUNCTION)
	CUBLAS_CALLS(CUBLAS_FUNCTION)
	NCCL_CALLS(FIELD_FUNCTION)
	NCCL_CUDA_CALLS(FIELD_FUNCTION)
	line("function", "cublasGetStatusString", abi<decltype(::cublasGetStatusString)>::text(), "p(i4)");
	line("function", "cublasGetProperty", abi<decltype(::cublasGetProperty)>::text(), "i4(i4,p)");
	line("function", "cuDriverGetVersion", abi<decltype(::cuDriverGetVersion)>::text(), "i4(p)");
	line("function", "ncclGetErrorString", abi<decltype(::ncclGetErrorString)>::text(), "p(i4)");
	line("function", "ncclGetLastError", abi<decltype(::ncclGetLastError)>::text(), "p(p)");
	CUDA_NUMBERS(NUMBER_OF)
	CUBLAS_NUMBERS(NUMBER_OF)
	NCCL_NUMBERS(NUMBER_OF)
	NCCL_CUDA_NUMBERS(NUMBER_OF)
	ncclConfig_t initial = NCCL_CONFIG_INITIALIZER;
	line("number", "magic", std::to_string(initial.magic), std::to_string((unsigned)own::NATIVE_MAGIC));
	line("number", "MAJOR_VERSION", std::to_string(MAJOR_VERSION), "0"); // of cublasGetProperty
	line("number", "MINOR_VERSION", std::to_string(MINOR_VERSION), "1");
	line("number", "PATCH_LEVEL", std::to_string(PATCH_LEVEL), "2");
	line("size", "ncclUniqueId", std::to_string(sizeof(ncclUniqueId)), std::to_string(sizeof(own::unique_id)));
	line("size", "CUuuid", std::to_string(sizeof(CUuuid)), "16");
	line("size", "CUdeviceptr", std::to_string(sizeof(CUdeviceptr)), std::to_string(sizeof(own::address)));
	line("least", "ncclConfig_t", std::to_string(sizeof(ncclConfig_t)), std::to_string(sizeof(own::config)));
	OFFSET(size)
	OFFSET(magic)
	OFFSET(version)
	OFFSET(blocking)
	OFFSET(cgaClusterSize)
	OFFSET(minCTAs)
	OFFSET(maxCTAs)
	OFFSET(netName)
	OFFSET(splitShare)
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 26, 0)
	OFFSET(trafficClass)
#endif
	GO_NUMBER(ncclUint8)
	GO_NUMBER(ncclInt64)
	GO_NUMBER(ncclFloat32)
	GO_NUMBER(ncclBfloat16)
	GO_NUMBER(ncclSum)
	GO_NUMBER(ncclMax)
	GO_NUMBER(ncclMin)
	GO_NUMBER(CUDA_VERSION)
	GO_NUMBER(NCCL_VERSION_CODE)
}
