"""Messages of the KMS v2 API (``k8s.io/kms/apis/v2/api.proto``) and of stored values (apiserver
``pkg/storage/value/encrypt/envelope/kmsv2/v2/api.proto``), v0.36."""

from pilothouse.storage.message_classes import message_classes

AES_GCM_KEY, HKDF_SHA256_XNONCE_AES_GCM_SEED = 0, 1
"""The type of an object's encrypted key: the key itself, or the seed from which keys are derived."""

_CLASSES = message_classes(
    "pilothouse.kmsv2",
    {
        "EncryptedObject": {
            "encryptedData": (1, "bytes"),
            "keyID": (2, "string"),
            "encryptedDEKSource": (3, "bytes"),
            "annotations": (4, "%bytes"),
            "encryptedDEKSourceType": (5, "int32"),
        },
        "StatusRequest": {},
        "StatusResponse": {"version": (1, "string"), "healthz": (2, "string"), "key_id": (3, "string")},
        "DecryptRequest": {
            "ciphertext": (1, "bytes"),
            "uid": (2, "string"),
            "key_id": (3, "string"),
            "annotations": (4, "%bytes"),
        },
        "DecryptResponse": {"plaintext": (1, "bytes")},
        "EncryptRequest": {"plaintext": (1, "bytes"), "uid": (2, "string")},
        "EncryptResponse": {"ciphertext": (1, "bytes"), "key_id": (2, "string"), "annotations": (3, "%bytes")},
    },
)
EncryptedObject = _CLASSES["EncryptedObject"]
StatusRequest, StatusResponse = _CLASSES["StatusRequest"], _CLASSES["StatusResponse"]
DecryptRequest, DecryptResponse = _CLASSES["DecryptRequest"], _CLASSES["DecryptResponse"]
EncryptRequest, EncryptResponse = _CLASSES["EncryptRequest"], _CLASSES["EncryptResponse"]
