package serve

import (
	"sync"

	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// modelHealth is the health service of gRPC, with the state of each model by its name.
type modelHealth struct {
	server *health.Server

	mu     sync.Mutex
	models map[string]bool // that the service knows
}

func newModelHealth() *modelHealth {
	return &modelHealth{server: health.NewServer(), models: map[string]bool{}}
}

// update reports, by the name of each model, SERVING if it has a version. The server and its
// services are SERVING if any model is.
func (h *modelHealth) update(models func() (ready map[string]bool)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	of := map[bool]grpc_health_v1.HealthCheckResponse_ServingStatus{
		true: grpc_health_v1.HealthCheckResponse_SERVING, false: grpc_health_v1.HealthCheckResponse_NOT_SERVING,
	}
	ready, some := models(), false
	for name := range h.models {
		if _, ok := ready[name]; !ok {
			h.server.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN)
		}
	}
	for name, is := range ready {
		h.server.SetServingStatus(name, of[is])
		some = some || is
	}
	h.models = ready
	for _, service := range []string{"", "tensorflow.serving.PredictionService", "tensorflow.serving.ModelService"} {
		h.server.SetServingStatus(service, of[some])
	}
}
