"""A camera: where it stands, how it projects, and what the renderer needs to know of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

FIELD = 32.0
"""Vertical field of view, in degrees."""
NEAR, FAR = 0.2, 6.0


@dataclass(frozen=True)
class Camera:
    """A pinhole camera that looks at `focus` from `distance`, `azimuth` and `elevation` (degrees), z up."""

    focus: tuple[float, float, float]
    distance: float
    azimuth: float
    elevation: float
    width: int
    height: int

    @property
    def view(self) -> np.ndarray:
        """(4, 4): world to camera, which looks along its own -z."""
        azimuth, elevation = math.radians(self.azimuth), math.radians(self.elevation)
        back = np.array(
            [
                math.cos(elevation) * math.cos(azimuth),
                math.cos(elevation) * math.sin(azimuth),
                math.sin(elevation),
            ]
        )
        right = np.array([-math.sin(azimuth), math.cos(azimuth), 0.0])
        turn = np.stack([right, np.cross(back, right), back])
        matrix = np.eye(4)
        matrix[:3, :3] = turn
        matrix[:3, 3] = -turn @ (np.array(self.focus) + self.distance * back)
        return matrix

    @property
    def projection(self) -> np.ndarray:
        """(4, 4): camera to clip space."""
        scale = 1 / math.tan(math.radians(FIELD) / 2)
        matrix = np.zeros((4, 4))
        matrix[0, 0] = scale * self.height / self.width
        matrix[1, 1] = scale
        matrix[2, 2] = (FAR + NEAR) / (NEAR - FAR)
        matrix[2, 3] = 2 * FAR * NEAR / (NEAR - FAR)
        matrix[3, 2] = -1.0
        return matrix

    def project(self, points: np.ndarray) -> np.ndarray:
        """(K, 3) world points -> (K, 3): pixel column, pixel row, distance along the view, in m."""
        homogeneous = np.concatenate([points, np.ones((len(points), 1))], axis=1)
        seen = homogeneous @ self.view.T
        clip = seen @ self.projection.T
        plane = clip[:, :2] / clip[:, 3:]
        column = (plane[:, 0] + 1) / 2 * self.width
        row = (1 - plane[:, 1]) / 2 * self.height
        return np.stack([column, row, -seen[:, 2]], axis=1)

    @staticmethod
    def depth(buffer: np.ndarray) -> np.ndarray:
        """Distance along the view, in m, from the renderer's depth buffer in [0, 1]."""
        return FAR * NEAR / (FAR - (FAR - NEAR) * buffer)


def looking_at(focus: np.ndarray, heading: float, size: tuple[int, int], distance: float = 1.0) -> Camera:
    """A camera beside the push, which goes from left to right and a little away from the viewer."""
    azimuth = math.degrees(heading) - 115.0
    return Camera((float(focus[0]), float(focus[1]), float(focus[2])), distance, azimuth, 32.0, *size)
