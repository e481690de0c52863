package kube

import (
	"errors"
	"fmt"
	"time"

	"github.com/goccy/go-yaml"
)

// DataPath is where the claim is mounted. It is then the working directory.
const DataPath = "/data"

const (
	grpcPort = 8500
	restPort = 8501
	forever  = 1<<31 - 1
)

// check returns the faults of a loop.
func (o *Online) check(s *Spec) error {
	if o == nil {
		return nil
	}
	var errs []error
	if s.Claim == "" {
		errs = append(errs, errors.New("kube: the parts of a loop share folders: name a PersistentVolumeClaim that many pods can mount with -claim"))
	}
	if o.Servers < 1 {
		errs = append(errs, fmt.Errorf("kube: -servers %d: at least 1 pod serves", o.Servers))
	}
	return errors.Join(errs...)
}

// objects returns the workloads of the join and of the servers.
func (o *Online) objects(s *Spec) []object {
	join := append([]word{"wdlrun", "join"}, words(o.Join)...)
	serve := append([]word{"wdlrun", "serve"}, words(o.Serve)...)
	serve = append(serve, "-host=0.0.0.0", word(fmt.Sprint("-port=", grpcPort)), word(fmt.Sprint("-rest-port=", restPort)))
	ready := of("grpc", object{of("port", grpcPort)}) // it is ready when a model has a version
	if o.TLS {
		ready = of("tcpSocket", object{of("port", grpcPort)}) // Kubernetes has no TLS for gRPC
	}
	port := func(name string, number int) object {
		return object{of("name", name), of("containerPort", number)}
	}
	opened := func(name string, number int) object { return object{of("name", name), of("port", number)} }
	named := func(part string) yaml.MapItem { return s.named(s.Name+"-"+part, part) }
	servers := []object{port("grpc", grpcPort), port("rest", restPort)}
	if o.AdminPort > 0 {
		servers = append(servers, port("admin", o.AdminPort))
	}
	var joins []yaml.MapItem
	if o.MetricsPort > 0 {
		joins = append(joins, of("ports", []object{port("metrics", o.MetricsPort)}))
	}
	return []object{
		{of("apiVersion", "v1"), of("kind", "Service"), named("join"), of("spec", object{of("clusterIP", "None"), of("selector", s.labels("join"))})},
		{of("apiVersion", "apps/v1"), of("kind", "StatefulSet"), named("join"), of("spec", append(object{
			of("replicas", 1), of("serviceName", s.Name+"-join"),
		}, s.pods("join", join, joins...)...))},
		{of("apiVersion", "apps/v1"), of("kind", "Deployment"), named("serve"), of("spec", append(object{
			of("replicas", o.Servers),
		}, s.pods("serve", serve,
			of("ports", servers),
			of("readinessProbe", object{ready, of("periodSeconds", 1)}))...))},
		{of("apiVersion", "v1"), of("kind", "Service"), named("serve"), of("spec", object{
			of("selector", s.labels("serve")), of("ports", []object{opened("grpc", grpcPort), opened("rest", restPort)}),
		})},
	}
}

// pods returns the selector and the template of a workload of one container.
func (s *Spec) pods(part string, command []word, more ...yaml.MapItem) object {
	needs := object{of("cpu", s.CPUs), of("memory", s.Memory)}
	c := append(object{of("name", part), of("image", word(s.Image)), of("command", command), of("workingDir", DataPath)}, more...)
	c = append(c, of("resources", object{of("requests", needs), of("limits", needs)}), of("volumeMounts", []object{{of("name", "data"), of("mountPath", DataPath)}}))
	return object{
		of("selector", object{of("matchLabels", s.labels(part))}),
		of("template", object{of("metadata", object{of("labels", s.labels(part))}), of("spec", object{
			of("terminationGracePeriodSeconds", int64(s.Grace/time.Second)),
			of("containers", []object{c}),
			of("volumes", []object{{of("name", "data"), of("persistentVolumeClaim", object{of("claimName", s.Claim)})}}),
		})}),
	}
}
