// An operator of one controller, with the cluster that KUBECONFIG names.
package main

import (
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

func main() {
	ctrl.SetLogger(zap.New())
	if err := run(); err != nil {
		ctrl.Log.Error(err, "the operator ended")
		os.Exit(1)
	}
}

func run() error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{})
	if err != nil {
		return err
	}
	if err := (&exposer{manager.GetClient()}).setup(manager); err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}
