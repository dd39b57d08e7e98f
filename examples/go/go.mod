module example.com/expose

go 1.26.0

require (
	k8s.io/api v0.36.2
	k8s.io/apimachinery v0.36.2
	k8s.io/client-go v0.36.2 // indirect
	sigs.k8s.io/controller-runtime v0.24.1
)
