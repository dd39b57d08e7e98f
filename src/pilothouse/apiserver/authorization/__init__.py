"""What a user may do: authorization modes, and the checks that protect roles and bindings."""
