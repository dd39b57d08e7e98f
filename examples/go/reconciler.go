package main

import (
	"context"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// portAnnotation of a Deployment is the port of the Service that it gets.
const portAnnotation = "example.com/port"

// exposer gives every Deployment that has the annotation a Service of the same name. The Service is owned by the
// Deployment, so that the garbage collector deletes it too.
type exposer struct {
	client.Client
}

func (r *exposer) setup(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).For(&appsv1.Deployment{}).Owns(&corev1.Service{}).Complete(r)
}

// Reconcile creates, updates or deletes the Service of one Deployment.
func (r *exposer) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var deployment appsv1.Deployment
	if err := r.Get(ctx, request.NamespacedName, &deployment); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if deployment.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	value, exposed := deployment.Annotations[portAnnotation]
	if !exposed {
		return ctrl.Result{}, r.remove(ctx, &deployment)
	}
	port, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		return ctrl.Result{}, reconcile.TerminalError(fmt.Errorf("annotation %s: %w", portAnnotation, err))
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: deployment.Name}}
	_, err = controllerutil.CreateOrUpdate(ctx, r.Client, service, func() error {
		if service.UID != "" && !metav1.IsControlledBy(service, &deployment) {
			return reconcile.TerminalError(fmt.Errorf("service %s belongs to somebody else", service.Name))
		}
		service.Spec.Selector = deployment.Spec.Selector.MatchLabels
		service.Spec.Ports = []corev1.ServicePort{
			{Protocol: corev1.ProtocolTCP, Port: int32(port), TargetPort: intstr.FromInt32(int32(port))},
		}
		return controllerutil.SetControllerReference(&deployment, service, r.Scheme())
	})
	return ctrl.Result{}, err
}

func (r *exposer) remove(ctx context.Context, deployment *appsv1.Deployment) error {
	var service corev1.Service
	if err := r.Get(ctx, client.ObjectKeyFromObject(deployment), &service); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !metav1.IsControlledBy(&service, deployment) {
		return nil
	}
	return client.IgnoreNotFound(r.Delete(ctx, &service))
}
