// Prints the functions and numbers of NVML that package inventory uses, as nvml.h has them: once
// with NVIDIA's header, once with the one that go-nvml contains.

#include <cstdio>
#include <string>
#include <type_traits>

#include <nvml.h>

// A handle is a pointer, or a structure of one, which is passed in the same way.
template <class T> std::string kind() {
	if (std::is_pointer<T>::value || (std::is_class<T>::value && sizeof(T) == sizeof(void *)))
		return "p";
	return "i" + std::to_string(sizeof(T));
}

template <class F> struct abi;
template <class R, class... A> struct abi<R(A...)> {
	static std::string text() {
		std::string list;
		for (const std::string &k : {kind<A>()..., std::string()})
			list += " " + k;
		return kind<R>() + list;
	}
};

#define FUNCTION(name) printf("%s %s\n", #name, abi<decltype(name)>::text().c_str());
#define NUMBER(name) printf("%s %llu\n", #name, (unsigned long long)(name));
#define SIZE(name) printf("%s %zu\n", #name, sizeof(name));

int main() {
	FUNCTION(nvmlInit_v2)
	FUNCTION(nvmlShutdown)
	FUNCTION(nvmlSystemGetDriverVersion)
	FUNCTION(nvmlSystemGetCudaDriverVersion)
	FUNCTION(nvmlDeviceGetCount_v2)
	FUNCTION(nvmlDeviceGetHandleByIndex_v2)
	FUNCTION(nvmlDeviceGetName)
	FUNCTION(nvmlDeviceGetUUID)
	FUNCTION(nvmlDeviceGetCudaComputeCapability)
	FUNCTION(nvmlDeviceGetMemoryInfo)
	FUNCTION(nvmlDeviceGetPciInfo_v3)
	FUNCTION(nvmlDeviceGetMaxPcieLinkGeneration)
	FUNCTION(nvmlDeviceGetCurrPcieLinkWidth)
	FUNCTION(nvmlDeviceGetNvLinkState)
	FUNCTION(nvmlDeviceGetCpuAffinity)
	FUNCTION(nvmlDeviceGetMemoryAffinity)
	FUNCTION(nvmlDeviceGetEccMode)
	FUNCTION(nvmlDeviceGetTotalEccErrors)
	FUNCTION(nvmlDeviceGetMigMode)
	FUNCTION(nvmlDeviceGetCurrentClocksThrottleReasons)
	FUNCTION(nvmlDeviceGetComputeRunningProcesses_v3)
	NUMBER(NVML_SUCCESS)
	NUMBER(NVML_ERROR_NOT_SUPPORTED)
	NUMBER(NVML_ERROR_NO_PERMISSION)
	NUMBER(NVML_ERROR_DRIVER_NOT_LOADED)
	NUMBER(NVML_ERROR_LIBRARY_NOT_FOUND)
	NUMBER(NVML_FEATURE_ENABLED)
	NUMBER(NVML_DEVICE_MIG_ENABLE)
	NUMBER(NVML_MEMORY_ERROR_TYPE_UNCORRECTED)
	NUMBER(NVML_VOLATILE_ECC)
	NUMBER(NVML_AFFINITY_SCOPE_NODE)
	NUMBER(nvmlClocksThrottleReasonSwPowerCap)
	NUMBER(nvmlClocksThrottleReasonHwSlowdown)
	NUMBER(nvmlClocksThrottleReasonSwThermalSlowdown)
	NUMBER(nvmlClocksThrottleReasonHwThermalSlowdown)
	NUMBER(nvmlClocksThrottleReasonHwPowerBrakeSlowdown)
	SIZE(nvmlMemory_t)
	SIZE(nvmlPciInfo_t)
	SIZE(nvmlProcessInfo_t)
}
