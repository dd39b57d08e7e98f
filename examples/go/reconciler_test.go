package main

import (
	"context"
	"os"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestServiceFollowsTheAnnotation(t *testing.T) {
	web := deployment(newNamespace(t), "web", map[string]string{portAnnotation: "80"})
	must(t, api.Create(t.Context(), web))
	eventually(t, "the Service has port 80", hasPort(web, 80))

	setPort(t, web, "8080")
	eventually(t, "the Service has port 8080", hasPort(web, 8080))

	setPort(t, web, "")
	eventually(t, "the Service is deleted", isGone(web))
}

func TestServiceIsOwnedByTheDeployment(t *testing.T) {
	web := deployment(newNamespace(t), "web", map[string]string{portAnnotation: "80"})
	must(t, api.Create(t.Context(), web))
	eventually(t, "the Service has port 80", hasPort(web, 80))
	var service corev1.Service
	must(t, api.Get(t.Context(), client.ObjectKeyFromObject(web), &service))
	if !metav1.IsControlledBy(&service, web) {
		t.Fatalf("owners are %v", service.OwnerReferences)
	}
}

func TestServiceOfSomebodyElseStaysAsItIs(t *testing.T) {
	namespace := newNamespace(t)
	other := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
	}
	must(t, api.Create(t.Context(), other))
	web := deployment(namespace, "web", map[string]string{portAnnotation: "80"})
	must(t, api.Create(t.Context(), web))
	// A later Deployment has its Service: the earlier one was reconciled, too.
	next := deployment(namespace, "next", map[string]string{portAnnotation: "80"})
	must(t, api.Create(t.Context(), next))
	eventually(t, "the next Service has port 80", hasPort(next, 80))
	if found, err := hasPort(web, 443)(t.Context()); err != nil || !found {
		t.Fatalf("the Service was changed (%v)", err)
	}
}

func TestInvalidPortIsRejectedByTheServer(t *testing.T) {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: newNamespace(t), Name: "web"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 70000}}},
	}
	if err := api.Create(t.Context(), service); !apierrors.IsInvalid(err) {
		t.Fatalf("expected the error Invalid, got %v", err)
	}
}

// Needs the garbage collector, which kube-apiserver does not have: `pilothouse envtest-assets --controllers`, or a cluster.
func TestServiceIsDeletedWithTheDeployment(t *testing.T) {
	if os.Getenv("NO_CONTROLLERS") != "" {
		t.Skip("NO_CONTROLLERS is set: nothing collects garbage")
	}
	namespace := newNamespace(t)
	web := deployment(namespace, "web", map[string]string{portAnnotation: "80"})
	must(t, api.Create(t.Context(), web))
	eventually(t, "the Service has port 80", hasPort(web, 80))
	must(t, api.Delete(t.Context(), web))
	eventually(t, "the Service is collected", isGone(web))
}

// Needs a cluster with nodes: `pilothouse up`, and USE_EXISTING_CLUSTER=true.
func TestServiceHasTheEndpointsOfARolledOutDeployment(t *testing.T) {
	if os.Getenv("USE_EXISTING_CLUSTER") != "true" {
		t.Skip("USE_EXISTING_CLUSTER is not true: nothing runs pods")
	}
	web := deployment(newNamespace(t), "web", map[string]string{portAnnotation: "80"})
	must(t, api.Create(t.Context(), web))
	eventually(t, "the Deployment is available", func(ctx context.Context) (bool, error) {
		err := api.Get(ctx, client.ObjectKeyFromObject(web), web)
		return web.Status.AvailableReplicas == 2, err
	})
	eventually(t, "the Service has two ready endpoints", func(ctx context.Context) (bool, error) {
		var slices discoveryv1.EndpointSliceList
		labels := client.MatchingLabels{discoveryv1.LabelServiceName: web.Name}
		err := api.List(ctx, &slices, client.InNamespace(web.Namespace), labels)
		ready := 0
		for _, slice := range slices.Items {
			for _, endpoint := range slice.Endpoints {
				if endpoint.Conditions.Ready != nil && *endpoint.Conditions.Ready {
					ready++
				}
			}
		}
		return ready == 2, err
	})
}

func setPort(t *testing.T, web *appsv1.Deployment, port string) {
	t.Helper()
	before := web.DeepCopy()
	if port == "" {
		delete(web.Annotations, portAnnotation)
	} else {
		web.Annotations[portAnnotation] = port
	}
	must(t, api.Patch(t.Context(), web, client.MergeFrom(before)))
}

func hasPort(web *appsv1.Deployment, port int32) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		var service corev1.Service
		if err := api.Get(ctx, client.ObjectKeyFromObject(web), &service); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		return service.Spec.Ports[0].Port == port, nil
	}
}

func isGone(web *appsv1.Deployment) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		err := api.Get(ctx, client.ObjectKeyFromObject(web), &corev1.Service{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
}
