package main

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// api reads from the server and not from a cache.
var api client.Client

func TestMain(m *testing.M) {
	os.Exit(func() int {
		code, err := withOperator(m.Run)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}())
}

// withOperator runs the tests beside the operator: on etcd and kube-apiserver of KUBEBUILDER_ASSETS, or, with
// USE_EXISTING_CLUSTER=true, on the cluster of KUBECONFIG.
func withOperator(tests func() int) (code int, err error) {
	ctrl.SetLogger(zap.New(zap.UseDevMode(true)))
	environment := &envtest.Environment{}
	config, err := environment.Start()
	if err != nil {
		return 0, err
	}
	defer func() {
		if stopped := environment.Stop(); err == nil {
			err = stopped
		}
	}()
	if api, err = client.New(config, client.Options{}); err != nil {
		return 0, err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return 0, err
	}
	if err := (&exposer{manager.GetClient()}).setup(manager); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- manager.Start(ctx) }()
	code = tests()
	cancel()
	return code, <-ended
}

// newNamespace is the test's own; it is deleted afterwards.
func newNamespace(t *testing.T) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "expose-"}}
	must(t, api.Create(t.Context(), namespace))
	t.Cleanup(func() { must(t, api.Delete(context.Background(), namespace)) })
	return namespace.Name
}

func deployment(namespace, name string, annotations map[string]string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	replicas := int32(2)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: annotations},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx"}}},
			},
		},
	}
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, condition wait.ConditionWithContextFunc) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 20*time.Second, true, condition); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
